"""How accuracy grows with participation, as finished runs showed it.

A run's records say how often its devices had taken part in the mean when it was tested, and how accurate
their models were then. Between two tests the curve is straight; after the last it is held, and said to
extrapolate. Several runs (seeds of one comparison) give a mean and a spread over runs as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmafl.errors import InputError
from pmafl.runs import open_run
from pmafl.wireless import Array


@dataclass(frozen=True)
class Expectation:
    """Accuracy after so many turns.

    Attributes:
        turns: of a device in the mean.
        accuracy: in the mean over devices and runs.
        over_devices: its standard deviation over the devices of a run; None where it was not recorded.
        over_runs: the lowest and the highest of the runs.
        extrapolates: whether no run went so far: more turns than measured are taken to bring nothing.
    """

    turns: float
    accuracy: float
    over_devices: float | None
    over_runs: tuple[float, float]
    extrapolates: bool

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "over_runs": list(self.over_runs)}


@dataclass(frozen=True, eq=False)
class Curve:
    """Accuracy by turns: one entry of each list per run, of measured points in order.

    Attributes:
        runs: where they are.
        turns, accuracy: of each run's points.
        deviation: over the devices of a run; NaN where not recorded.
    """

    runs: tuple[str, ...]
    turns: tuple[Array, ...]
    accuracy: tuple[Array, ...]
    deviation: tuple[Array, ...]

    @property
    def measured_to(self) -> float:
        """Turns that every run reached."""
        return float(min(turns[-1] for turns in self.turns))

    def after(self, turns: float) -> Expectation:
        """What to expect after so many turns of a device."""
        at = [np.interp(turns, x, y) for x, y in zip(self.turns, self.accuracy, strict=True)]
        spread = [np.interp(turns, x, y) for x, y in zip(self.turns, self.deviation, strict=True)]
        deviation = float(np.mean(spread))
        return Expectation(
            turns=turns,
            accuracy=float(np.mean(at)),
            over_devices=deviation if np.isfinite(deviation) else None,
            over_runs=(float(min(at)), float(max(at))),
            extrapolates=turns > self.measured_to,
        )

    def turns_for(self, accuracy: float) -> float | None:
        """Turns after which the runs had reached an accuracy in the mean; None where they had not."""
        grid = np.unique(np.concatenate(self.turns))
        grid = grid[grid <= self.measured_to]
        reached = np.mean(
            [np.interp(grid, x, y) for x, y in zip(self.turns, self.accuracy, strict=True)], axis=0
        )
        above = np.flatnonzero(reached >= accuracy)
        return float(grid[above[0]]) if above.size else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "runs": list(self.runs),
            "measured_to_turns": self.measured_to,
            "curves": [
                {"turns": x.tolist(), "accuracy": y.tolist()}
                for x, y in zip(self.turns, self.accuracy, strict=True)
            ],
        }


def read_curve(places: Sequence[str | Path]) -> Curve:
    """The curve of finished runs; a folder of runs, as a comparison makes it, stands for all of them."""
    directories = [directory for place in places for directory in _runs_in(Path(place))]
    parts = [_points(directory) for directory in directories]
    turns, accuracy, deviation = zip(*parts, strict=True)
    return Curve(tuple(map(str, directories)), turns, accuracy, deviation)


def _runs_in(place: Path) -> list[Path]:
    if (place / "rounds.jsonl").is_file():
        return [place]
    inside = sorted(path.parent for path in place.glob("*/**/rounds.jsonl")) if place.is_dir() else []
    if not inside:
        raise InputError(f"{place}: is neither a run directory nor a folder of them")
    return inside


def _points(directory: Path) -> tuple[Array, Array, Array]:
    """Turns in the mean, accuracy and its deviation, wherever a run was tested."""
    run = open_run(directory)
    devices = run.settings.fleet.devices
    taken, points = 0, []
    for record in run.rows:
        taken += _arrived(record)
        if record["accuracy"] is not None:
            deviation = record.get("accuracy_std")
            points.append((taken / devices, record["accuracy"], np.nan if deviation is None else deviation))
    if not points:
        raise InputError(f"{directory}: was never tested; --learning needs a run with learning")
    turns, accuracy, deviation = np.array(points, dtype=np.float64).T
    return turns, accuracy, deviation


def _arrived(record: Mapping[str, Any]) -> int:
    return len(record["scheduled"]) - len(record.get("failed") or ())
