"""The bound for a run directory: reads the run, measures once, answers for its own and other schedules.

What was measured is kept in ``bound.json`` in the run directory and used again as long as the run's settings
and records are the same to the byte.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmafl import __version__, runs
from pmafl.errors import InputError
from pmafl.rounds import play
from pmafl.settings import Settings
from pmafl.theory.constants import Array, Constants, conditions
from pmafl.theory.measurement import (
    ConstantRow,
    Measurement,
    constant_rows,
    measured_constants,
    typical_constants,
)
from pmafl.theory.promise import SOUND, Promise, against_losses, departures, promise
from pmafl.world import wireless_world

Schedule = list[list[int]]
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Verdict:
    """A condition of the theorem: the value in the run, the limit, and the limit at median smoothness."""

    condition: str
    value: float
    limit: float
    holds: bool
    median_limit: float
    holds_at_median: bool
    if_it_fails: str


@dataclass(frozen=True)
class Assessment:
    """All that `pmafl bound` knows about a run; the first promise is that of the run's own schedule.

    remarks: how the measured loss relates to the bound. not_covered: what in the training is outside the
    theorem. recorded_test_loss: as the run wrote it; `found.test_loss` is what the replay gave.
    """

    found: Measurement
    rows: list[ConstantRow]
    verdicts: list[Verdict]
    not_covered: list[str]
    promises: list[Promise]
    remarks: list[str]
    recorded_test_loss: float | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not finite become None."""
        found = self.found
        answer = {
            "measured": {"rounds": found.rounds, "training_loss": found.losses},
            "constants": [asdict(row) for row in self.rows],
            "conditions": [asdict(verdict) for verdict in self.verdicts],
            "not_covered": self.not_covered,
            "bounds": [asdict(promise) for promise in self.promises],
            "remarks": self.remarks,
            "test_loss": {"recorded": self.recorded_test_loss, "replayed": found.test_loss},
        }
        return {key: _finite(value) for key, value in answer.items()}


def assess(
    directory: Path,
    what_if: Sequence[str] = (),
    points: int = 5,
    probed: int = 10,
    report: Report = lambda done, rounds: None,
) -> Assessment:
    """The bound for a finished run, and for the schedules of `what_if` ("policy=NAME", "samples=...").

    Measures at `points` rounds, curvature on `probed` devices. `report` is told how many rounds are trained
    again, of how many.
    """
    run = open_trained(directory)
    settings, records = run.settings, run.rows
    schedule = _schedule(directory / "rounds.jsonl", records, settings.fleet.devices)
    # Before the minutes of measuring: a wrong question is answered at once.
    others = [(_shorten(text), what_if_samples(text, run)) for text in what_if]
    found = measured(run, schedule, points, probed, report)
    own = np.array([found.samples[devices].sum() for devices in schedule])
    seen = measured_constants(found, settings.learning)
    promises = [promise(name, seen, found, samples) for name, samples in [("this run", own), *others]]
    constants = promises[0].constants.get(SOUND, seen)
    verdicts = _verdicts(constants, typical_constants(constants, found))
    not_covered, remarks = departures(settings.learning), against_losses(promises[0], found)
    if not_covered or not all(verdict.holds for verdict in verdicts if "rate" in verdict.condition):
        remarks.append("not all conditions hold: the formula has a value, but proves nothing about this run")
    return Assessment(
        found=found,
        rows=constant_rows(constants, found),
        verdicts=verdicts,
        not_covered=not_covered,
        promises=promises,
        remarks=remarks,
        recorded_test_loss=records[-1].get("loss"),
    )


def open_trained(directory: Path) -> runs.Run:
    """A finished run that trained."""
    run = runs.open_run(directory)
    if run.settings.run.learning == "none":
        raise InputError(f'{directory} ran with run.learning = "none"; the bound needs a run that trained')
    done, rounds = len(run.rows), run.settings.run.rounds
    if done < rounds:
        raise InputError(
            f"{directory} holds {done} of {rounds} rounds; finish it with pmafl run --resume {directory}"
        )
    return run


def _schedule(path: Path, records: list[Any], devices: int) -> Schedule:
    for number, record in enumerate(records, start=1):
        scheduled = record.get("scheduled") if isinstance(record, dict) else None
        if not isinstance(scheduled, list) or not all(k in range(devices) for k in scheduled):
            raise InputError(f"{path}, line {number}: needs a list 'scheduled' of devices 0 to {devices - 1}")
    # A device that failed was scheduled, but nothing of its training arrived.
    return [sorted(set(record["scheduled"]) - set(record.get("failed", ()))) for record in records]


def measured(run: runs.Run, schedule: Schedule, points: int, probed: int, report: Report) -> Measurement:
    """What was measured on the run: from ``bound.json`` if that fits, else by training again."""
    path = run.directory / "bound.json"
    digest = hashlib.sha256()
    for name in ("settings.toml", "rounds.jsonl"):
        digest.update((run.directory / name).read_bytes())
    key = {"run": digest.hexdigest(), "points": points, "devices": probed, "version": __version__}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return Measurement.from_dict(kept["found"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none yet, or not ours: measure

    from pmafl.theory.replay import measure  # imports torch

    task = run.world.task
    assert task is not None, "open_trained refuses runs without learning"
    found = measure(task, schedule, points, probed, report)
    content = json.dumps({"key": key, "found": found.to_dict()}, allow_nan=False)
    try:
        runs.write_atomically(path, content.encode())
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    return found


def what_if_samples(text: str, run: runs.Run) -> Array:
    """Samples that each round would schedule: of another policy on the same channels, or as listed."""
    kind, _, value = text.partition("=")
    if kind == "policy" and value:
        return _policy_samples(value, run.settings)
    if kind == "samples" and value:
        return _listed_samples(value, run)
    raise InputError(f"--what-if {_shorten(text)}: must be policy=NAME, samples=N,N,... or samples=FILE")


def _policy_samples(name: str, settings: Settings) -> Array:
    """The wireless side alone; a policy other than the run's has its default options."""
    options = settings.policy.options if name == settings.policy.name else {}
    policy = settings.policy.model_copy(update={"name": name, "options": options})
    world = wireless_world(settings.model_copy(update={"policy": policy}))
    return np.array([float(record.scheduled_samples) for _, record in play(world)])


def _listed_samples(value: str, run: runs.Run) -> Array:
    name = _shorten(f"samples={value}")
    try:
        samples = _numbers(value)
    except ValueError:
        try:
            samples = _numbers(Path(value).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"--what-if {name}: is neither numbers nor a file of them") from None
    rounds, total = run.settings.run.rounds, float(run.wireless_world.fleet.samples.sum())
    if len(samples) not in (1, rounds):
        raise InputError(f"--what-if {name}: has {len(samples)} numbers; must be 1 or {rounds}")
    if not all(0 <= volume <= total for volume in samples):
        raise InputError(f"--what-if {name}: each number must be 0 to {total:g}, all samples")
    return np.broadcast_to(np.array(samples), rounds)


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.split(r"[\s,]+", text.strip().strip("[]"))]


def _shorten(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _verdicts(constants: Constants, typical: Constants) -> list[Verdict]:
    pairs = zip(conditions(constants), conditions(typical), strict=True)
    return [
        Verdict(c.name, c.value, c.limit, c.holds, median.limit, median.holds, c.if_it_fails)
        for c, median in pairs
    ]


def _finite(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
