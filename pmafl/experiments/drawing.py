"""How the figures look: a colour for each method, a line style for each value of what is varied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pmafl.comparison import estimate
from pmafl.experiments.study import ENERGY, SAMPLES, Curve, Study, final, history, summaries
from pmafl.plots import COLOURS, figure

LINE_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
LABELS = {"accuracy": "test accuracy (%)", "loss": "test loss"}
WIRELESS_LABELS = {SAMPLES: "scheduled samples per round", ENERGY: "energy per device and round (J)"}
SCALES = {"accuracy": 100.0, "loss": 1.0}


def panels(count: int = 2) -> tuple[Figure, list[Axes]]:
    drawing, axes = figure(1, count, width=5.5, height=4.2)
    return drawing, list(axes[0])


def _first(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _colours(curves: Sequence[Curve]) -> dict[str, str]:
    return dict(zip(_first(curve.method for curve in curves), COLOURS, strict=False))


def _styles(curves: Sequence[Curve]) -> dict[str, Any]:
    return dict(zip(_first(curve.value for curve in curves), LINE_STYLES, strict=False))


def lines(axes: Axes, study: Study, curves: Sequence[Curve], quantity: str) -> None:
    """Means over seeds by round. The second half of the rounds decides what is seen of the first.

    Ours are broad and pale below the others, which would else be hidden where both are the same.
    """
    colours, styles, late = _colours(study.curves), _styles(study.curves), []
    for curve in curves:
        rounds, values = history(study.learned(curve), quantity)
        drawn = SCALES[quantity] * values.mean(axis=0)
        late.append(drawn[len(drawn) // 2 :])
        style = curve.style or styles[curve.value]
        marker = None if len(rounds) > 1 else "o"
        colour, look = colours[curve.method], _look(curve.ours)
        axes.plot(rounds, drawn, color=colour, linestyle=style, marker=marker, **look)
    axes.set(xlabel="round", ylabel=LABELS[quantity])
    if not late:
        axes.text(0.5, 0.5, "no run is done", ha="center", va="center", transform=axes.transAxes)
        return
    seen = np.concatenate(late)
    low, high = np.nanmin(seen), np.nanmax(seen)
    if quantity == "accuracy":
        axes.set_ylim(max(0.0, low - 0.6 * (high - low) - 1), high + 0.1 * (high - low) + 0.2)
    else:
        axes.set_ylim(0, 1.3 * high)


def _look(ours: bool) -> dict[str, Any]:
    return {"linewidth": 3.0, "alpha": 0.5, "zorder": 1.5} if ours else {"linewidth": 1.4}


def same_limits(left: Axes, right: Axes) -> None:
    """One scale for two panels that are to be compared."""
    drawn = [axes for axes in (left, right) if axes.lines]
    limits = [edge for axes in drawn for edge in axes.get_ylim()]
    for axes in drawn:
        axes.set_ylim(min(limits), max(limits))


def ends(axes: Axes, study: Study, quantity: str) -> None:
    """What every curve ends with, with its 95% interval over seeds."""
    for position, curve in enumerate(study.shown):
        found = estimate(SCALES[quantity] * final(study.learned(curve), quantity))
        axes.errorbar(position, found.mean, found.half_width, fmt="o", color=COLOURS[0], capsize=4)
    axes.set_xticks(range(len(study.shown)), [curve.value.rpartition(" ")[2] for curve in study.shown])
    axes.set_ylabel(LABELS[quantity])


def wireless_bars(axes: Axes, study: Study, metric: str) -> None:
    """Scheduled samples per round, or energy, over all seeds of the wireless side."""
    colours = _colours(study.curves)
    values = study.values
    width = 0.8 / len(colours)
    for curve in study.curves:
        found = estimate(summaries(study.alone(curve), metric))
        place = values.index(curve.value) + width * (
            list(colours).index(curve.method) - len(colours) / 2 + 0.5
        )
        axes.bar(place, found.mean, width, yerr=found.half_width, color=colours[curve.method])
    axes.set_xticks(range(len(values)), values)
    axes.set_ylabel(WIRELESS_LABELS[metric])


def shared_legend(drawing: Figure, study: Study, bars: bool = False) -> None:
    """One legend below the panels: methods by colour, values by line style where lines are drawn.

    With `bars`, methods that have bars alone are in it too.
    """
    curves = study.curves if bars else study.shown or study.curves
    ours = {curve.method for curve in curves if curve.ours}
    own: dict[str, Any] = {curve.method: curve.style for curve in curves if curve.style}
    colours, styles = _colours(study.curves), _styles(study.curves)
    handles = [
        Line2D(
            [],
            [],
            color=colours[method],
            linestyle=own.get(method),
            label=f"{method} (ours)" if method in ours else method,
            **_look(method in ours),
        )
        for method in _first(curve.method for curve in curves)
    ]
    handles += [
        Line2D([], [], color="0.3", linestyle=styles[value], label=value)
        for value in _first(curve.value for curve in study.shown)
    ]
    drawing.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=9)
