"""What is kept of the runs behind the figures: a few kilobytes each, in one compressed file per figure.

A run is known by the digest of its settings, which is also the name of its directory. What was kept is read
first, directories after it, so that figures and claims need no directory and a run that is kept is never made
again. Runs are added as they finish.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pmafl import runs
from pmafl.comparison import Array, Job
from pmafl.errors import InputError
from pmafl.files import write_atomically
from pmafl.learning import Workload
from pmafl.rounds import length_s
from pmafl.settings import Settings, load
from pmafl.wireless import LN2, price_ratio, spectral_efficiency
from pmafl.world import (
    World,
    channel_gain,
    costs_of,
    make_problem,
    received_s,
    tuning_cost,
    wireless_world,
)

FOLDER = "evidence"
KEEP_EVERY_S = 60.0
DIGITS = 7  # of a number that is kept
BY_ROUND = ("scheduled_samples", "mean_energy_j")
COSTS = ("round_s", "uploaded_bits")  # by round too, since the leaderboard
EVALUATED = ("accuracy", "loss", "worst_tenth_accuracy")
NUMBERS = (
    "scheduled_samples_per_round",
    "scheduled_devices_per_round",
    "energy_per_device_round_j",
    "max_energy_per_device_round_j",
    "budget_j",
    "wall_time_s",
)
ALLOCATIONS = ("gain", "clock_hz", "marginal_ratio", "average_ratio")


@dataclass(frozen=True, eq=False)
class Kept:
    """What is kept of a run.

    Attributes:
        key: digest of its settings.
        settings: those that are not at their default, as `section.key`.
        versions: of what it depended on.
        numbers: of its summary; and what tuning before a test costs, where it does: `tuning_energy_j`, the
            mean over devices, and `tuning_s`, until the last is done.
        schedule: digest of who was scheduled in each round.
        columns: by round, for a run that learns; in EVALUATED NaN for rounds that were not, or diverged.
            COSTS are the round's length, and the bits that all its devices sent.
        allocations: of scheduled devices in all rounds, where they were asked for: channel gain, CPU clock,
            and radio's power over the CPU's, at the margin and on average, where neither is at its limit.
    """

    key: str
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    numbers: Mapping[str, float | None]
    schedule: str
    columns: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    allocations: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def column(self, name: str) -> Array:
        return np.array(self.columns[name], dtype=np.float64)


def files_of(results: Path) -> list[Path]:
    """The files of evidence, one per figure."""
    return sorted((results / FOLDER).glob("*.jsonl.gz"))


def check_kept(results: Path) -> None:
    if not files_of(results):
        raise InputError(f"{results / FOLDER}: holds no runs; make a figure first (pmafl reproduce fig5)")


class Archive:
    """The runs that are kept in a directory of results; with `directories`, also those that are there.

    What was kept without one of the columns that are `needed` does not count. What is kept in directories of
    results `beside` this one is known too.
    """

    def __init__(
        self,
        results: Path,
        directories: bool = False,
        needed: Sequence[str] = (),
        beside: Sequence[Path] = (),
    ) -> None:
        self.folder = results / FOLDER
        self._places = [results, *beside]
        self._directories = directories
        self._needed = set(needed)
        self._from_directories: dict[Path, Kept] = {}

    @cached_property
    def _kept(self) -> dict[str, Kept]:
        found: dict[str, Kept] = {}
        for path in (path for place in self._places for path in files_of(place)):
            found |= {kept.key: _richer(kept, found.get(kept.key)) for kept in _read(path)}
        return self._with_needed(found)

    def _with_needed(self, found: Mapping[str, Kept]) -> dict[str, Kept]:
        return {key: kept for key, kept in found.items() if self._needed <= set(kept.columns)}

    def find(self, job: Job) -> Kept | None:
        """What is known of a run; nothing where it is not finished."""
        if (kept := self._kept.get(job.directory.name)) is not None:
            return kept
        if not self._directories:
            return None
        if job.directory not in self._from_directories and (summary := runs.read_summary(job.directory)):
            self._from_directories[job.directory] = _of_run(job, summary)
        return self._from_directories.get(job.directory)

    def forget_without_allocations(self, jobs: Iterable[Job]) -> None:
        """Of runs whose allocations are wanted but neither kept nor in a whole run: they are made again."""
        for job in jobs:
            kept = self._kept.get(job.directory.name)
            if kept and not kept.allocations and runs.read_summary(job.directory) is None:
                del self._kept[kept.key]

    def unfinished(self, jobs: Iterable[Job]) -> list[Job]:
        return [job for job in jobs if self.find(job) is None]

    def keep(self, name: str, jobs: Iterable[Job], with_allocations: Iterable[Job] = ()) -> None:
        """Write what is known of some runs to the file of a figure, beside what it holds already.

        Allocations are large: they are written for the runs `with_allocations` alone.
        """
        path = self.folder / f"{name}.jsonl.gz"
        before = {kept.key: kept for kept in _read(path)} if path.exists() else {}
        wanted = {job.directory.name for job in with_allocations}
        after = dict(before)
        for job in jobs:
            found = self.find(job)
            if found is None:
                continue
            if found.key not in wanted:
                found = replace(found, allocations={})
            elif not found.allocations and runs.read_summary(job.directory):
                found = _with_allocations(found, job.directory)
            after[found.key] = _richer(found, before.get(found.key))
        if after != before:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, _compressed(after.values()))
            for key, now in self._with_needed(after).items():
                self._kept[key] = _richer(now, self._kept.get(key))


def keeper(archive: Archive, name: str) -> Callable[[Sequence[Job]], None]:
    """Keeps what is done of some jobs, but not at every call: looking through thousands takes time."""
    last = time.monotonic()

    def keep(jobs: Sequence[Job]) -> None:
        nonlocal last
        if time.monotonic() - last > KEEP_EVERY_S:
            archive.keep(name, jobs)
            last = time.monotonic()

    return keep


def _richer(one: Kept, other: Kept | None) -> Kept:
    """Whichever has allocations, then whichever has more columns, else the other."""
    return one if other is None or _richness(one) > _richness(other) else other


def _richness(kept: Kept) -> tuple[bool, int]:
    return bool(kept.allocations), len(kept.columns)


def _compressed(kept: Iterable[Kept]) -> bytes:
    lines = (json.dumps(asdict(run), separators=(",", ":")) for run in sorted(kept, key=lambda run: run.key))
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def _read(path: Path) -> list[Kept]:
    try:
        return [Kept(**json.loads(line)) for line in gzip.decompress(path.read_bytes()).splitlines()]
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise InputError(
            f"{path}: not the records of runs ({error}); restore it, or delete it and run again"
        ) from None


def _of_run(job: Job, summary: Mapping[str, Any]) -> Kept:
    records = runs.read_records(job.directory)
    schedule = json.dumps([record["scheduled"] for record in records])
    numbers = {name: rounded(summary[name]) for name in NUMBERS}
    columns: dict[str, list[float | None]] = {}
    if job.settings.run.learning == "full":
        costs = costs_of(job.settings)
        if costs.tuning_iterations:
            energy_j, time_s = tuning_cost(wireless_world(job.settings))
            numbers |= {"tuning_energy_j": rounded(energy_j.mean()), "tuning_s": rounded(time_s.max())}
        columns = {name: [rounded(r[name]) for r in records] for name in (*BY_ROUND, *EVALUATED)}
        columns |= _costs(records, job.settings, costs)
    return Kept(
        key=job.directory.name,
        settings=job.settings.changed(),
        versions=summary["versions"],
        numbers=numbers,
        schedule=hashlib.sha256(schedule.encode()).hexdigest()[:16],
        columns=columns,
    )


def _costs(
    records: Sequence[Mapping[str, Any]], settings: Settings, costs: Workload
) -> dict[str, list[float | None]]:
    """COSTS of each round; devices of which nothing arrived have sent it all the same."""
    received, bits = received_s(settings, costs), np.broadcast_to(costs.upload_bits, settings.fleet.devices)
    return {
        "round_s": [rounded(length_s(record, settings, received)) for record in records],
        "uploaded_bits": [float(bits[record["scheduled"]].sum()) for record in records],
    }


def rounded(number: float | None, digits: int = DIGITS) -> float | None:
    """To digits that every processor has alike; None where it is not finite."""
    return None if number is None or not np.isfinite(number) else float(f"{number:.{digits}g}")


def _with_allocations(kept: Kept, directory: Path) -> Kept:
    world = wireless_world(load(directory))
    rounds = [_round_allocations(world, record) for record in runs.read_records(directory)]
    parts = (np.concatenate(part) for part in zip(*rounds, strict=True))
    columns = ([rounded(number) for number in part] for part in parts)
    return Kept(**{**asdict(kept), "allocations": dict(zip(ALLOCATIONS, columns, strict=True))})


def _round_allocations(world: World, record: Mapping[str, Any]) -> tuple[Array, Array, Array, Array]:
    r"""ALLOCATIONS of the scheduled devices of a round, with

    .. math:: -\frac{\partial E^L}{\partial T^L} = \frac{2 E^L}{T^L}, \qquad
              -\frac{\partial E^U}{\partial T^U} = \frac{\theta B N_0}{h} (1 + 2^x (x \ln 2 - 1)).
    """
    devices = record["scheduled"]
    gain = channel_gain(world, record["round"])
    problem = make_problem(world, world.fleet, gain, np.zeros(world.fleet.devices))
    gain = problem.channel_gain[devices]
    names = ("bandwidth_share", "compute_time_s", "upload_time_s", "compute_energy_j", "upload_energy_j")
    share, compute_s, upload_s, compute_j, upload_j = (np.array(record[name]) for name in names)
    efficiency = spectral_efficiency(share, upload_s, problem.sent_bits[devices], problem.bandwidth_hz)
    radio_w = share * problem.bandwidth_hz * problem.noise_w_per_hz / gain * price_ratio(LN2 * efficiency)
    clock_hz = problem.work_cycles[devices] / compute_s
    average_w = upload_j / upload_s
    free = (clock_hz < 0.999 * problem.max_frequency_hz[devices]) & (
        average_w < 0.999 * problem.max_power_w[devices]
    )
    marginal = radio_w * compute_s / (2 * compute_j)
    return gain, clock_hz, marginal[free], (average_w * compute_s / compute_j)[free]
