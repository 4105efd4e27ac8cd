"""The page of a comparison: curves with intervals by variation, paired differences, a table that sorts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import BasicTicker, PrintfTickFormatter, Range1d, Span

from pmafl import comparison
from pmafl.comparison import METRICS, Estimate, Job, Row, estimate, label, present_metrics, show
from pmafl.errors import InputError
from pmafl.page import figures
from pmafl.page.run import glossary
from pmafl.page.story import length_s, receiving_s
from pmafl.rounds import energy_of
from pmafl.runs import Run, read_summary
from pmafl.wireless import Array

MOST_POINTS = 400  # of a curve
CURVES = {  # of a record: title, label with unit, factor
    "accuracy": ("Accuracy", "test accuracy (%)", 100.0),
    "worst_tenth_accuracy": ("Accuracy of the worst tenth", "test accuracy (%)", 100.0),
    "error": ("Error", "mean absolute error", 1.0),
    "worst_tenth_error": ("Error of the worst tenth", "mean absolute error", 1.0),
    "loss": ("Loss", "test loss", 1.0),
    "scheduled_samples": ("Scheduled samples", "samples in the round", 1.0),
    "mean_energy_j": ("Energy", "J per device and round so far", 1.0),
    "worst_energy_j": ("Energy of the worst device", "J per round so far", 1.0),
    "mean_queue_j": ("Energy queues", "mean beyond the budget (J)", 1.0),
}


def comparison_data(directory: Path) -> tuple[dict[str, Any], list[Job]]:
    """Everything on the page of a comparison, and its finished runs."""
    jobs = comparison.read_grid(directory)
    done = [job for job in jobs if read_summary(job.directory) is not None]
    if not done:
        raise InputError(f"{directory}: none of its {len(jobs)} runs is finished; run the comparison again")
    by_variation: dict[Any, list[Job]] = {}
    for job in done:
        by_variation.setdefault(job.variation, []).append(job)
    most = max(map(len, by_variation.values()))
    whole = {variation: members for variation, members in by_variation.items() if len(members) == most}
    rows = comparison.tabulate([job for members in whole.values() for job in members])
    notes = []
    if len(whole) < len({job.variation for job in jobs}) or len(done) < len(jobs):
        notes.append(f"{len(done)} of {len(jobs)} runs are finished; variations that lack some are left out.")
    curves, axes = _curves(list(whole.values()))
    word = "error" if "error" in curves else "accuracy"
    drawn = {name: figures.bands(name, *CURVES[name][:2]) for name in curves}
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
        "curves": curves,
        "axes": axes,
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


def _curves(groups: Sequence[Sequence[Job]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Mean and half-width of each curve by variation, and the rounds, seconds and joules they stand at."""
    curves: dict[str, list[Any]] = {name: [] for name in CURVES}
    axes: dict[str, list[Array]] = {"round": [], "seconds": [], "joules": []}
    for members in groups:
        columns = [_columns(Run(job.directory, job.settings)) for job in members]
        rounds = min(found["round"].size for found in columns)
        kept = np.unique(np.linspace(0, rounds - 1, min(rounds, MOST_POINTS)).astype(np.intp))
        for name in axes:
            axes[name].append(np.mean([found[name][kept] for found in columns], axis=0))
        for name in CURVES:
            values = np.stack([found[name][kept] for found in columns])
            curves[name].append(_interval(values * CURVES[name][2]))
    found = {name: bands for name, bands in curves.items() if any(band["at"].size for band in bands)}
    return found, axes


def _columns(run: Run) -> dict[str, Array]:
    rows, settings, received_s = run.rows, run.settings, receiving_s(run)
    energy_j = [float(energy_of(row).sum()) for row in rows]
    found = {
        "round": np.array([row["round"] + 1.0 for row in rows]),
        "seconds": np.cumsum([length_s(row, settings, received_s) for row in rows]),
        "joules": np.cumsum(energy_j),
    }
    wireless = settings.run.wireless == "full"
    for name in CURVES:
        counts = wireless or not name.endswith("_j")
        found[name] = np.array([row.get(name) if counts else None for row in rows], dtype=np.float64)
    return found


def _interval(values: Array) -> dict[str, Array]:
    """Where all seeds have a number: its place, mean and half-width."""
    at = np.flatnonzero(np.isfinite(values).all(axis=0))
    found = [estimate(values[:, place]) for place in at]
    return {
        "at": at.astype(np.int32),
        "mean": np.array([each.mean for each in found], dtype=np.float64),
        "half_width": np.nan_to_num(np.array([each.half_width for each in found], dtype=np.float64)),
    }


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
