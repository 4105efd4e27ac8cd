"""The curves of a comparison: what its runs measured round by round, against rounds, seconds and joules.

A curve is the mean over the seeds of a variation with its 95% interval. Seconds and joules at a round are
means over seeds too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmafl.comparison import Job, Variation, estimate
from pmafl.rounds import energy_of, length_s
from pmafl.runs import Run
from pmafl.settings import Settings
from pmafl.wireless import Array
from pmafl.world import costs_of, received_s

MOST_POINTS = 400  # of a curve
AXES = ("round", "seconds", "joules")
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


@dataclass(frozen=True, eq=False)
class Band:
    """Means with half-widths of their 95% intervals (0 for a single seed), at some points of the axes."""

    at: NDArray[np.intp]
    mean: Array
    half_width: Array


@dataclass(frozen=True, eq=False)
class Curves:
    """All curves of a comparison, with an entry per variation in every list.

    Attributes:
        axes: by AXES, where the points are; joules are those of all devices together since the start.
        bands: by name of CURVES; those that no run has are left out.
    """

    axes: dict[str, list[Array]]
    bands: dict[str, list[Band]]


def by_variation(jobs: Iterable[Job]) -> dict[Variation, list[Job]]:
    """Jobs of the same variation together, in the order of the first of each."""
    found: dict[Variation, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.variation, []).append(job)
    return found


def read_curves(groups: Sequence[Sequence[Job]]) -> Curves:
    """The curves of finished runs, a group per variation; a long one is thinned."""
    axes: dict[str, list[Array]] = {name: [] for name in AXES}
    bands: dict[str, list[Band]] = {name: [] for name in CURVES}
    for members in groups:
        columns = [_columns(Run(job.directory, job.settings)) for job in members]
        rounds = min(found["round"].size for found in columns)
        kept = _kept([{name: values[:rounds] for name, values in found.items()} for found in columns])
        for name in axes:
            axes[name].append(np.mean([found[name][kept] for found in columns], axis=0))
        for name in CURVES:
            values = np.stack([found[name][kept] for found in columns])
            bands[name].append(_band(values * CURVES[name][2]))
    return Curves(axes, {name: found for name, found in bands.items() if any(one.at.size for one in found)})


def _kept(columns: Sequence[dict[str, Array]]) -> NDArray[np.intp]:
    """The rounds that are shown: some of all, and some of those that were tested, which may be few."""
    tested = [np.isfinite(columns[0][name]) for name in ("accuracy", "error", "loss")]
    whole = np.arange(columns[0]["round"].size)
    return np.union1d(_thinned(whole), _thinned(np.flatnonzero(np.any(tested, axis=0))))


def _thinned(places: NDArray[np.intp]) -> NDArray[np.intp]:
    """At most so many of them, in equal steps, with the first and the last."""
    chosen = np.linspace(0, places.size - 1, min(places.size, MOST_POINTS)).astype(np.intp)
    return places[chosen]


def _columns(run: Run) -> dict[str, Array]:
    rows, settings = run.rows, run.settings
    received = _received_s(settings)
    found = {
        "round": np.array([row["round"] + 1.0 for row in rows]),
        "seconds": np.cumsum([length_s(row, settings, received) for row in rows]),
        "joules": np.cumsum([float(energy_of(row).sum()) for row in rows]),
    }
    wireless = settings.run.wireless == "full"
    for name in CURVES:
        counts = wireless or not name.endswith("_j")
        found[name] = np.array([row.get(name) if counts else None for row in rows], dtype=np.float64)
    return found


def _received_s(settings: Settings) -> Array:
    """How long devices receive in a round; what a network is made of is asked only where that matters."""
    return received_s(settings, costs_of(settings)) if settings.cell.downlink_bps else np.zeros(())


def _band(values: Array) -> Band:
    """Where all seeds have a number."""
    at = np.flatnonzero(np.isfinite(values).all(axis=0))
    found = [estimate(values[:, place]) for place in at]
    return Band(
        at,
        np.array([each.mean for each in found], dtype=np.float64),
        np.nan_to_num(np.array([each.half_width for each in found], dtype=np.float64)),
    )
