"""The page of a comparison: curves with intervals by variation, paired differences, a table that sorts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import BasicTicker, PrintfTickFormatter, Range1d, Span

from pmafl import comparison
from pmafl.comparison import METRICS, Estimate, Job, Row, label, present_metrics, show
from pmafl.curves import CURVES, Band, by_variation, read_curves
from pmafl.errors import InputError
from pmafl.page import figures
from pmafl.page.run import glossary
from pmafl.runs import read_summary


def comparison_data(directory: Path) -> tuple[dict[str, Any], list[Job]]:
    """Everything on the page of a comparison, and its finished runs."""
    jobs = comparison.read_grid(directory)
    done = [job for job in jobs if read_summary(job.directory) is not None]
    if not done:
        raise InputError(f"{directory}: none of its {len(jobs)} runs is finished; run the comparison again")
    variations = by_variation(done)
    most = max(map(len, variations.values()))
    whole = {variation: members for variation, members in variations.items() if len(members) == most}
    rows = comparison.tabulate([job for members in whole.values() for job in members])
    notes = []
    if len(whole) < len({job.variation for job in jobs}) or len(done) < len(jobs):
        notes.append(f"{len(done)} of {len(jobs)} runs are finished; variations that lack some are left out.")
    notes += [f"{sentence}." for sentence in comparison.diverged(done)]
    curves = read_curves(list(whole.values()))
    word = "error" if "error" in curves.bands else "accuracy"
    drawn = {name: figures.bands(name, *CURVES[name][:2]) for name in curves.bands}
    drawn["differences"] = _differences()
    data = {
        "name": directory.resolve().name,
        "line": f"{len(rows)} variations, {most} seeds each: mean and 95% interval over seeds",
        "notes": notes,
        "variations": [label(row.variation) or "the only one" for row in rows],
        "runs": [
            [[job.seed, f"{job.directory.relative_to(directory).as_posix()}"] for job in members]
            for members in whole.values()
        ],
        "baseline": _baseline(rows),
        "curves": {name: [_packed(band) for band in bands] for name, bands in curves.bands.items()},
        "axes": curves.axes,
        "table": _table(rows),
        "figures": figures.items(drawn),
        "glossary": {
            name: glossary(word)[name] for name in (word, "worst tenth", "energy", "seconds", "joules")
        }
        | {
            "interval": "half-width of the 95% interval of a mean over seeds, by Student's t",
            "difference": "to the first value of what was varied first, seed by seed, on the same channels",
        },
    }
    return data, [job for members in whole.values() for job in members]


def _baseline(rows: Sequence[Row]) -> str:
    return ", ".join(label(row.variation) or "the only one" for row in rows if not row.differences)


def _table(rows: Sequence[Row]) -> dict[str, Any]:
    """The numbers of every variation, as people read them and as they sort."""

    def cell(found: Estimate | None, metric: str, signed: bool = False) -> list[Any]:
        if found is None:
            return ["", None, None]
        factor = 100.0 if metric.endswith("accuracy") else 1.0
        half_width = None if math.isnan(found.half_width) else factor * found.half_width
        return [show(found, metric, signed=signed), factor * found.mean, half_width]

    metrics = present_metrics(rows)
    return {
        "metrics": [
            [name, METRICS[name] + (" (%)" if name.endswith("accuracy") else "")] for name in metrics
        ],
        "means": [[cell(row.metrics.get(name), name) for name in metrics] for row in rows],
        "differences": [[cell(row.differences.get(name), name, True) for name in metrics] for row in rows],
    }


def _packed(band: Band) -> dict[str, Any]:
    return {"at": band.at.astype(np.int32), "mean": band.mean, "half_width": band.half_width}


def _differences() -> Any:
    """Each variation's paired difference to the baseline, with its interval."""
    drawing = figures.blank("differences", "Paired differences", "difference", "variation", 320)
    data = figures.source("pairs", "y", "mean", "low", "high", "colour")
    drawing.segment("low", "y", "high", "y", source=data, line_color="colour", line_width=3)
    drawing.scatter("mean", "y", source=data, size=11, fill_color="colour", line_color="colour")
    drawing.add_layout(
        Span(location=0, dimension="height", line_width=1.5, name="cursor", line_dash="dashed")
    )
    drawing.yaxis.formatter = PrintfTickFormatter(format="%d")
    drawing.yaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    drawing.y_range = Range1d(0, 1)
    return drawing
