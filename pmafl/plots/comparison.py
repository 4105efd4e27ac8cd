"""The picture of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from pmafl.comparison import METRICS, Row, label, present_metrics
from pmafl.plots.style import COLOURS, STYLE, figure, save


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
