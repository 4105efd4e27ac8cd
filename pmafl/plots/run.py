"""Pictures of one run, drawn from its records: learning, energy, scheduling, queues, the use of the deadline.

Each panel is a function on an axes; `plot_run` draws them all into one overview and one file each.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from pmafl.plots.style import COLOURS, STYLE, columns, figure, save
from pmafl.rounds import energy_of
from pmafl.runs import Run, open_run
from pmafl.settings import Settings
from pmafl.wireless import Array

Records = list[dict[str, Any]]


def learning_curve(axes: Axes, records: Records, key: str, label: str, scale: float = 1.0) -> None:
    measured = [r for r in records if r.get(key) is not None]
    rounds = [r["round"] + 1 for r in measured]
    axes.plot(rounds, [scale * r[key] for r in measured], label="mean over devices")
    if key in ("accuracy", "error"):
        worst = [scale * r[f"worst_tenth_{key}"] for r in measured]
        axes.plot(rounds, worst, linestyle="--", label="worst tenth of the devices")
        axes.legend(loc="lower right" if key == "accuracy" else "upper right")
    axes.set(xlabel="round", ylabel=label)


def energy_against_budget(axes: Axes, records: Records, budget_j: Array) -> None:
    """Average energy per round of each device, devices in order of it, against their budgets."""
    spent_j = energy_by_device(records, budget_j.size) / len(records)
    order = np.argsort(spent_j)
    columns(axes, 0, spent_j[order], label="used")
    outline: dict[str, Any] = {"fill": False, "baseline": None, "linewidth": mpl.rcParams["lines.linewidth"]}
    columns(axes, 0, budget_j[order], color=COLOURS[1], label="budget", **outline)
    highest_j = max(spent_j.max(), budget_j.max())
    axes.set(xlabel="device, in order of use", ylabel="energy per round (J)", ylim=(0, 1.25 * highest_j))
    axes.legend(loc="upper left", ncols=2)


def scheduled_samples(axes: Axes, records: Records) -> None:
    columns(axes, records[0]["round"] + 1, np.array([float(r["scheduled_samples"]) for r in records]))
    axes.set(xlabel="round", ylabel="scheduled samples")


def queue_lengths(axes: Axes, records: Records) -> None:
    rounds = [r["round"] + 1 for r in records]
    axes.plot(rounds, [r["mean_queue_j"] for r in records], label="mean over devices")
    axes.plot(rounds, [r["max_queue_j"] for r in records], linestyle="--", label="longest")
    axes.set(xlabel="round", ylabel="energy queue (J)")
    axes.legend(loc="best")


def deadline_split(axes: Axes, records: Records, deadline_s: float) -> None:
    """How a scheduled device divides its time on average; white is a round without devices."""
    compute_s, upload_s = (
        np.array([np.mean(r[key]) if r[key] else 0.0 for r in records])
        for key in ("compute_time_s", "upload_time_s")
    )
    first = records[0]["round"] + 1
    columns(axes, first, compute_s, label="computing")
    columns(axes, first, compute_s + upload_s, compute_s, color=COLOURS[4], label="uploading")
    axes.set(xlabel="round", ylabel="time of a device (s)", ylim=(0, 1.25 * deadline_s))
    axes.legend(loc="upper center", ncols=2)


def energy_by_device(records: Records, devices: int) -> Array:
    """Energy that each device spent in the whole run, in joules."""
    spent_j = np.zeros(devices)
    for record in records:
        spent_j[record["scheduled"]] += energy_of(record)
    return spent_j


@mpl.rc_context(STYLE)
def plot_run(run: Run | str | PathLike[str]) -> list[Path]:
    """Draw every panel that a run has data for, into ``plots/``: the overview first, then one file each."""
    run = open_run(run)
    records = run.rows
    predicts_values = any(r.get("error") is not None for r in records)
    panels = _panels(run.settings, run.budget_j, predicts_values)
    folder = run.directory / "plots"
    folder.mkdir(exist_ok=True)
    paths = []
    for name, (draw, title) in panels.items():
        drawing, axes = figure()
        draw(axes[0, 0], records)
        axes[0, 0].set_title(title)
        paths.append(save(drawing, folder / f"{name}.png"))
    drawing, axes = figure(rows=-(-len(panels) // 3), columns=min(3, len(panels)), width=4.6, height=3.4)
    for place, (draw, title) in zip(axes.flat, panels.values(), strict=False):
        draw(place, records)
        place.set_title(title)
    for place in axes.flat[len(panels) :]:
        place.set_axis_off()
    return [save(drawing, folder / "overview.png"), *paths]


def _panels(
    settings: Settings, budget_j: Array, predicts_values: bool
) -> dict[str, tuple[Callable[[Axes, Records], None], str]]:
    panels: dict[str, tuple[Callable[[Axes, Records], None], str]] = {}
    if predicts_values:
        panels["error"] = (
            lambda a, r: learning_curve(a, r, "error", "mean absolute error"),
            "Error",
        )
        panels["loss"] = (lambda a, r: learning_curve(a, r, "loss", "mean squared error"), "Loss")
    elif settings.run.learning == "full":
        panels["accuracy"] = (
            lambda a, r: learning_curve(a, r, "accuracy", "test accuracy (%)", 100),
            "Accuracy",
        )
        panels["loss"] = (lambda a, r: learning_curve(a, r, "loss", "test loss"), "Loss")
    panels["scheduled"] = (scheduled_samples, "Scheduled samples")
    if settings.run.wireless == "full":
        deadline_s = settings.cell.deadline_s
        panels["energy"] = (lambda a, r: energy_against_budget(a, r, budget_j), "Energy against budget")
        panels["queues"] = (queue_lengths, "Energy queues")
        panels["deadline"] = (lambda a, r: deadline_split(a, r, deadline_s), "Use of the deadline")
    return panels
