"""Pictures of one run, drawn from its records: learning, energy, scheduling, queues, the use of the deadline.

Each panel is a function on an axes; `plot_run` draws them all into one overview and one file each. Colours
are those of Okabe and Ito, which readers with any colour vision can tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmafl.comparison import METRICS, Row, label, present_metrics
from pmafl.runs import read_budgets, read_records, read_settings
from pmafl.settings import Settings

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 150,
}
MOST_COLUMNS = 2000  # more than a picture has pixels across
Records = list[dict[str, Any]]
Array = NDArray[np.float64]


def figure(rows: int = 1, columns: int = 1, width: float = 5.5, height: float = 3.8) -> tuple[Figure, Any]:
    """A figure that needs no screen, with its axes as an array of shape (rows, columns)."""
    drawing = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing, drawing.subplots(rows, columns, squeeze=False)


def save(drawing: Figure, path: Path) -> Path:
    drawing.savefig(path)
    return path


def columns(axes: Axes, first: int, tops: Array, bottoms: Array | None = None, **style: Any) -> None:
    """Bars that touch, at whole numbers from `first` on, as one outline: many single ones take minutes.

    Where there are more than a picture has room for, each column is the mean of neighbours.
    """
    starts = np.arange(0, tops.size, -(-tops.size // MOST_COLUMNS))
    edges = first - 0.5 + np.append(starts, tops.size)
    top, bottom = (
        np.add.reduceat(values, starts) / np.diff(edges)
        for values in (tops, np.zeros_like(tops) if bottoms is None else bottoms)
    )
    shape: dict[str, Any] = {"baseline": bottom, "fill": True}
    axes.stairs(top, edges, **shape | style)


def learning_curve(axes: Axes, records: Records, key: str, label: str, scale: float = 1.0) -> None:
    measured = [r for r in records if r[key] is not None]
    rounds = [r["round"] + 1 for r in measured]
    axes.plot(rounds, [scale * r[key] for r in measured], label="mean over devices")
    if key == "accuracy":
        worst = [scale * r["worst_tenth_accuracy"] for r in measured]
        axes.plot(rounds, worst, linestyle="--", label="worst tenth of the devices")
        axes.legend(loc="lower right")
    axes.set(xlabel="round", ylabel=label)


def energy_against_budget(axes: Axes, records: Records, budget_j: Array) -> None:
    """Average energy a round of each device, devices in order of it, against their budgets."""
    spent_j = energy_by_device(records, budget_j.size) / len(records)
    order = np.argsort(spent_j)
    columns(axes, 0, spent_j[order], label="used")
    outline: dict[str, Any] = {"fill": False, "baseline": None, "linewidth": mpl.rcParams["lines.linewidth"]}
    columns(axes, 0, budget_j[order], color=COLOURS[1], label="budget", **outline)
    highest_j = max(spent_j.max(), budget_j.max())
    axes.set(xlabel="device, in order of use", ylabel="energy a round (J)", ylim=(0, 1.25 * highest_j))
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
        energy_j = np.add(record["compute_energy_j"], record["upload_energy_j"])
        spent_j[record["scheduled"]] += energy_j
    return spent_j


@mpl.rc_context(STYLE)
def plot_run(directory: Path | str) -> list[Path]:
    """Draw every panel that a run has data for, into ``plots/``: the overview first, then one file each."""
    directory = Path(directory)
    settings, records = read_settings(directory), read_records(directory)
    panels = _panels(settings, read_budgets(directory))
    folder = directory / "plots"
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


def _panels(settings: Settings, budget_j: Array) -> dict[str, tuple[Callable[[Axes, Records], None], str]]:
    panels: dict[str, tuple[Callable[[Axes, Records], None], str]] = {}
    if settings.run.learning == "full":
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


@mpl.rc_context(STYLE)
def plot_comparison(rows: Sequence[Row], path: Path) -> Path:
    """Each metric of a comparison: lines over the last varied key where it is a number, else bars."""
    metrics = present_metrics(rows)
    drawing, axes = figure(rows=-(-len(metrics) // 3), columns=min(3, len(metrics)), width=4.6, height=3.4)
    for place, metric in zip(axes.flat, metrics, strict=False):
        _lines_or_bars(place, rows, metric)
    for place in axes.flat[len(metrics) :]:
        place.set_axis_off()
    return save(drawing, path)


def _lines_or_bars(axes: Axes, rows: Sequence[Row], metric: str) -> None:
    scale, unit = (100.0, " (%)") if metric.endswith("accuracy") else (1.0, "")
    axes.set_ylabel(METRICS[metric] + unit)
    series: dict[str, list[Row]] = {}
    for row in rows:
        series.setdefault(label(row.variation[:-1]), []).append(row)
    numeric = all(row.variation and isinstance(row.variation[-1][1], int | float) for row in rows)
    for index, (name, members) in enumerate(series.items()):
        means = scale * np.array([row.metrics[metric].mean for row in members])
        errors = np.nan_to_num(scale * np.array([row.metrics[metric].half_width for row in members]))
        if numeric:
            x = [float(row.variation[-1][1]) for row in members]
            axes.errorbar(
                x, means, errors, marker="o", capsize=3, label=name or None, color=COLOURS[index % 8]
            )
        else:
            names = [label(row.variation).replace(", ", "\n") for row in members]
            axes.barh(names, means, xerr=errors, color=COLOURS[index % 8], capsize=3)
    if numeric:
        axes.set_xlabel(label(rows[0].variation[-1:]).partition("=")[0])
        if len(series) > 1:
            axes.legend()
    else:
        axes.set_ylabel("")
        axes.set_xlabel(METRICS[metric] + unit)
        axes.invert_yaxis()
