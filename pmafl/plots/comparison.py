"""The pictures of a comparison: each metric by what was varied, and curves over rounds, seconds and joules.

However many variations there are and however long their names, all are shown: pictures grow with them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pmafl.comparison import METRICS, Job, Row, label, present_metrics
from pmafl.curves import AXES, CURVES, Band, Curves, by_variation, read_curves
from pmafl.plots.style import COLOURS, STYLE, figure, save

FEW_TIMES = 20.0  # from which on a scale is logarithmic
NAME_WIDTH = 34  # characters of a line of a name
LINE_IN = 0.2  # height of a line of names, in inches
LEGEND_CHARACTERS = 130  # in a line of the legend
AXIS_LABELS = {"round": "round", "seconds": "simulated seconds", "joules": "joules of all devices together"}
LEARNED = ("accuracy", "worst_tenth_accuracy", "error", "loss")
SCHEDULED = ("scheduled_samples", "mean_energy_j", "worst_energy_j")  # of runs that learn nothing
LEAST_ACCURACY, MOST_ACCURACY = -3.0, 103.0  # intervals may reach beyond what is possible
ENDS: Any = ((min, np.min), (max, np.max))
LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))


@mpl.rc_context(STYLE)
def plot_comparison(rows: Sequence[Row], path: Path) -> Path:
    """Each metric of a comparison: lines over the last varied key where it is a number, else points by name.

    Beside the path's own file, the same as PDF.
    """
    metrics = present_metrics(rows)
    columns = min(3, len(metrics))
    down = -(-len(metrics) // columns)
    numeric = all(row.variation and _is_number(row.variation[-1][1]) for row in rows)
    if numeric:
        drawing, axes = figure(rows=down, columns=columns, width=4.6, height=3.4)
        series = _series(rows)
        for place, metric in zip(axes.flat, metrics, strict=False):
            _lines(place, series, metric)
        if len(series) > 1:
            legend_below(drawing, axes.flat[0], list(series))
    else:
        names = [_wrapped(row) for row in rows]
        height = 1.1 + LINE_IN * sum(name.count("\n") + 1.5 for name in names)
        drawing, axes = figure(rows=down, columns=columns, width=4.2, height=max(2.6, height), sharey=True)
        for place, metric in zip(axes.flat, metrics, strict=False):
            _points(place, rows, names, metric)
    for place in axes.flat[len(metrics) :]:
        place.set_axis_off()
    return save(drawing, path, "pdf")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrapped(row: Row) -> str:
    """A variation's name over as many lines as it needs, options on lines of their own where it is long."""
    parts = label(row.variation).replace(":", ": ").split(", ")
    lines = (line for part in parts for line in textwrap.wrap(part, NAME_WIDTH, subsequent_indent="  "))
    return "\n".join(lines) or "the only one"


def _series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows that differ in the last varied key alone, by what they share."""
    series: dict[str, list[Row]] = {}
    for row in rows:
        series.setdefault(label(row.variation[:-1]), []).append(row)
    return series


def _numbers(rows: Sequence[Row], metric: str) -> tuple[Any, Any]:
    """Means and half-widths, NaN where a row lacks the metric."""
    scale = 100.0 if metric.endswith("accuracy") else 1.0
    found = [row.metrics.get(metric) for row in rows]
    means = [np.nan if one is None else one.mean for one in found]
    errors = [0.0 if one is None else np.nan_to_num(one.half_width) for one in found]
    return scale * np.array(means), scale * np.array(errors)


def _unit(metric: str) -> str:
    return METRICS[metric] + (" (%)" if metric.endswith("accuracy") else "")


def _lines(axes: Axes, series: dict[str, list[Row]], metric: str) -> None:
    values = [float(row.variation[-1][1]) for rows in series.values() for row in rows]
    for (name, members), style in zip(series.items(), _styles(len(series)), strict=True):
        means, errors = _numbers(members, metric)
        x = [float(row.variation[-1][1]) for row in members]
        axes.errorbar(
            x, means, errors, marker="o", markersize=4, capsize=3, elinewidth=1, label=name, **style
        )
    if 0 < FEW_TIMES * min(values) < max(values):
        axes.set_xscale("log")
    key = label(next(iter(series.values()))[0].variation[-1:]).partition("=")[0]
    axes.set(xlabel=key, ylabel=_unit(metric))


def _points(axes: Axes, rows: Sequence[Row], names: Sequence[str], metric: str) -> None:
    """A point with its interval per row: the axis shows where they differ, which bars from 0 would hide."""
    series = _series(rows)
    means, errors = _numbers(rows, metric)
    for index, row in enumerate(rows):
        colour = COLOURS[list(series).index(label(row.variation[:-1])) % len(COLOURS)]
        axes.errorbar(means[index], index, xerr=errors[index], fmt="o", color=colour, capsize=3)
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(_unit(metric))
    axes.margins(x=0.12)
    if metric.endswith("accuracy"):
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, LEAST_ACCURACY), min(high, MOST_ACCURACY))


def _styles(count: int) -> list[dict[str, Any]]:
    """Looks of so many lines: colours first, then kinds of line, which repeat only after forty."""
    colours = COLOURS[:-1] if count > 1 else COLOURS  # yellow is too pale for a line
    looks = [{"color": colour, "linestyle": line} for line, colour in product(LINES, colours)]
    widths = np.linspace(2.8, 1.2, count)  # so that one is seen under another that is the same
    return [looks[index % len(looks)] | {"linewidth": float(width)} for index, width in enumerate(widths)]


@mpl.rc_context(STYLE)
def plot_curves(jobs: Sequence[Job], path: Path) -> Path:
    """What finished runs measured over rounds, seconds and joules: means over seeds with 95% intervals.

    A row per quantity, a column per axis; where the wireless cell plays no part there are rounds alone.
    """
    groups = by_variation(jobs)
    curves = read_curves(list(groups.values()))
    quantities = [name for name in LEARNED if name in curves.bands] or [
        name for name in SCHEDULED if name in curves.bands
    ]
    across = [name for name in AXES if all(_tells(values) for values in curves.axes[name])]
    drawing, axes = figure(rows=len(quantities), columns=len(across), width=5.0, height=3.4)
    names = [label(variation) or "the only one" for variation in groups]
    for (down, quantity), (along, axis) in product(enumerate(quantities), enumerate(across)):
        _bands(axes[down, along], curves, quantity, axis, names)
    if len(names) > 1:
        legend_below(drawing, axes[0, 0], names)
    return save(drawing, path, "pdf")


def _tells(values: Any) -> bool:
    """Whether an axis has numbers that differ: there are no seconds and joules without a cell."""
    return bool(np.isfinite(values).all() and (values.size < 2 or values[-1] > values[0]))


def _bands(axes: Axes, curves: Curves, quantity: str, axis: str, names: Sequence[str]) -> None:
    for band, places, name, style in zip(
        curves.bands[quantity], curves.axes[axis], names, _styles(len(names)), strict=True
    ):
        x = places[band.at]
        marker = "o" if x.size == 1 else None
        axes.plot(x, band.mean, label=name, marker=marker, **style)
        if band.half_width.any():
            edges = band.mean - band.half_width, band.mean + band.half_width
            axes.fill_between(x, *edges, color=style["color"], alpha=min(0.15, 0.6 / len(names)), linewidth=0)
    ends = [places[-1] for places in curves.axes[axis]]
    if 0 < FEW_TIMES * min(ends) < max(ends):
        axes.set_xscale("log")
    title, unit, _ = CURVES[quantity]
    low, high = _limits(curves.bands[quantity])
    if quantity.endswith("accuracy"):
        low, high = max(low, LEAST_ACCURACY), min(high, MOST_ACCURACY)
    axes.set(xlabel=AXIS_LABELS[axis], ylabel=unit, title=title, ylim=(low, high))


def _limits(bands: Sequence[Band]) -> tuple[float, float]:
    """All of every line, and of the intervals as much again: with few seeds these may be a hundred times as
    wide, and nothing else could be seen."""
    low, high = (reach([each(band.mean) for band in bands if band.mean.size]) for reach, each in ENDS)
    widest = max(float(band.half_width.max(initial=0.0)) for band in bands)
    span = max(high - low, 1e-6 * abs(high), 1e-12)
    room = max(0.05 * span, min(1.05 * widest, 0.5 * span))
    return low - room, high + room


def legend_below(drawing: Figure, axes: Axes, names: Sequence[str]) -> None:
    """One legend for all panels, under them, with as many columns as the names leave room for."""
    handles, _ = axes.get_legend_handles_labels()
    wrapped = ["\n".join(textwrap.wrap(name, LEGEND_CHARACTERS)) for name in names]
    longest = max(len(line) for name in wrapped for line in name.split("\n")) + 6
    width_in = drawing.get_size_inches()[0]
    columns = int(np.clip(width_in / 15 * LEGEND_CHARACTERS / longest, 1, 6))
    lines = -(-len(names) // columns)
    drawing.set_figheight(drawing.get_figheight() + LINE_IN * (lines + 1))  # panels keep their size
    drawing.legend(handles, wrapped, loc="outside lower center", ncols=columns, fontsize=8)
