"""The picture of a plan: choices against each other, who takes part by distance, what more would bring."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pmafl.errors import InputError
from pmafl.planning import REASONS, Answer
from pmafl.plots.style import COLOURS, STYLE, figure, save

DAYS_PER_YEAR = 365.25
FEW_TIMES = 8.0  # from which on a scale is logarithmic
LONGEST_YEARS = 100.0  # a battery that lasts longer is drawn here


def draw_plan(found: Answer) -> Figure:
    """Three panels."""
    drawing, axes = figure(columns=3, width=4.8, height=4.0)
    choices_panel(axes[0, 0], found)
    distance_panel(axes[0, 1], found)
    prices_panel(axes[0, 2], found)
    return drawing


def choices_panel(axes: Axes, found: Answer) -> None:
    """Samples a day against battery life, or energy a day where none is known; a colour per deadline."""
    batteries = found.detail.lives is not None
    deadlines = sorted({one.choice.deadline_s for one in found.forecasts})
    for index, deadline_s in enumerate(deadlines):
        members = [i for i, one in enumerate(found.forecasts) if one.choice.deadline_s == deadline_s]
        for unbeaten in (False, True):
            points = [
                (_across(found, i), found.forecasts[i].samples_per_day)
                for i in members
                if found.best[i] is unbeaten
            ]
            if points:
                x, y = zip(*points, strict=True)
                axes.plot(
                    x,
                    y,
                    "o" if unbeaten else "x",
                    color=COLOURS[index % len(COLOURS)],
                    alpha=1.0 if unbeaten else 0.5,
                    label=f"{deadline_s:g} s per round"
                    if unbeaten or not any(found.best[i] for i in members)
                    else None,
                )
    shown = found.shown
    axes.plot(
        [_across(found, shown)],
        [found.forecasts[shown].samples_per_day],
        "o",
        markersize=14,
        fillstyle="none",
        color="0.2",
        label="recommended" if found.recommended is not None else "shown beside",
    )
    for scale, values in (
        (axes.set_xscale, [_across(found, index) for index in range(len(found.forecasts))]),
        (axes.set_yscale, [one.samples_per_day for one in found.forecasts]),
    ):
        if 0 < min(values) * FEW_TIMES < max(values):
            scale("log")
    across = "first battery empty after (years)" if batteries else "energy per device and day (J)"
    axes.set(xlabel=across, ylabel="samples per day", title="Choices (crosses: another is better)")
    axes.legend(fontsize=8)


def _across(found: Answer, index: int) -> float:
    one = found.forecasts[index]
    if one.lives is not None:
        return min(one.lives.first / DAYS_PER_YEAR, LONGEST_YEARS)
    return max(one.energy_per_device_round_j * one.choice.rounds_per_day, 1e-12)


def distance_panel(axes: Axes, found: Answer) -> None:
    """Devices in rings around the server: who takes part, and who does not for what reason."""
    rings = found.feasibility.rings()
    names = [f"{ring['from_m']:.0f} to\n{ring['to_m']:.0f}" for ring in rings]
    bottom = np.zeros(len(rings))
    kinds = {"taking_part": "take part"} | {reason: f"not: {reason}" for reason in REASONS}
    for index, (kind, label) in enumerate(kinds.items()):
        counts = np.array([float(ring[kind]) for ring in rings])
        if counts.any():
            axes.bar(names, counts, bottom=bottom, color=COLOURS[index], label=label)
            bottom += counts
    turns = axes.twinx()
    turns.plot(names, [ring["turns_per_day"] for ring in rings], "o-", color="0.2")
    turns.set_ylim(0, max(1.3 * max(ring["turns_per_day"] for ring in rings), 1e-9))
    turns.set_ylabel("turns per device and day (line)")
    turns.grid(visible=False)
    axes.set(xlabel="metres from the server", ylabel="devices", title="Who takes part")
    axes.set_ylim(0, 1.4 * bottom.max())
    axes.legend(loc="upper left", fontsize=8, ncols=2)
    axes.tick_params(axis="x", labelsize=8)


def prices_panel(axes: Axes, found: Answer) -> None:
    """By which part samples grow with 10% more of each resource."""
    prices = found.prices()
    names = {"band": "band", "energy": "energy\nbudget", "time": "time per\nround"}
    values = [10 * prices[name] for name in names]
    axes.barh(list(names.values()), values, color=COLOURS[2])
    for index, value in enumerate(values):
        axes.text(value, index, f" {value:.1f}%", va="center")
    axes.set_xlim(0, 1.25 * max([*values, 1e-3]))
    axes.set(xlabel="more samples (%)", title="What 10% more brings")
    axes.invert_yaxis()


def save_plan(found: Answer, path: Path) -> Path:
    """Write the picture."""
    try:
        with mpl.rc_context(STYLE):
            return save(draw_plan(found), path)
    except (OSError, ValueError) as error:  # an ending that Matplotlib does not know is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be written ({reason})") from None
