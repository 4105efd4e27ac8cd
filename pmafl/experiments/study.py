"""What the figures have in common: their curves, the runs behind these, and the numbers read from the runs.

All runs of all figures stand in one directory and are named by their settings, so that a run which two
figures share is made once, and an interrupted study goes on where it was. Their numbers come from an archive,
which knows runs whose directories are gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pmafl import comparison
from pmafl.comparison import Array, Job
from pmafl.data import KNOWN
from pmafl.errors import InputError
from pmafl.experiments.archive import Archive, Kept
from pmafl.settings import Settings, load

# On CIFAR-10 the preset departs from the paper where FedAvg would not train (docs/cifar10-study.md).
READINGS: dict[str, dict[str, Any]] = {
    "chosen": {},
    "stated": {"learning.batch_size": 0, "learning.momentum": 0.9},
}
SPLITS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99)
TUNING_SEEDS = range(1001, 1004)  # none of those in the figures
ROUNDS_BETWEEN_EVALUATIONS = {"mnist": 5, "cifar10": 10}  # where algorithms are compared
SAMPLES, ENERGY = "scheduled_samples_per_round", "energy_per_device_round_j"
LAST_PART = 0.2  # of the rounds: their mean is what a run ends with, since some algorithms swing
WIRELESS_ONLY = {"run.learning": "none", "run.checkpoint_every": 1000, "run.evaluate_every": 1}
HOW_DEVICES_TRAIN = {*READINGS["stated"], "learning.precision"}  # nothing of it changes who takes part
OWN_KEYS = {"run.rounds", "run.seed", "run.learning", "run.wireless", "policy.options"}
Run = Callable[[Sequence[Job]], None]


class NotRun(Exception):
    """There are no runs for what is asked."""


class NotTested(NotRun):
    """The runs are too small for what is asked."""


@dataclass(frozen=True)
class Curve:
    """One line of a figure.

    Attributes:
        method: what is compared; has a colour.
        value: of the parameter that the figure varies, with its unit; has a line style.
        settings: over the preset.
        ours: whether it goes beyond the paper.
        tuned: whether OCEAN's fixed split is to be found first, the one that schedules most.
        drawn: whether it is (RS-WEL knows no budget: one line is enough).
        style: of the line, where it has no value of its own.
    """

    method: str
    value: str
    settings: Mapping[str, Any]
    ours: bool = False
    tuned: bool = False
    drawn: bool = True
    style: str | None = None

    @property
    def name(self) -> str:
        return f"{self.method}, {self.value}"


@dataclass(frozen=True)
class Scale:
    """How much is run: everything here is kept beside the figure.

    Attributes:
        devices: that train, if fewer than the fleet has; what needs no learning keeps the whole fleet.
    """

    dataset: str
    reading: str = "chosen"
    seeds: int = 3
    wireless_seeds: int = 100
    rounds: int = 100
    devices: int | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, curve: Curve) -> dict[str, Any]:
        """Of a curve; what a user overrides comes last."""
        every = min(curve.settings["run.evaluate_every"], self.rounds)
        common = {"run.rounds": self.rounds, "run.evaluate_every": every}
        return {**READINGS[self.reading], **curve.settings, **common, **self.overrides}

    @cached_property
    def _whole(self) -> Settings:
        """With all devices."""
        return load(self.dataset, self.overrides)

    @property
    def training_devices(self) -> int:
        return self.devices or self._whole.fleet.devices

    @property
    def fewer_devices(self) -> dict[str, Any]:
        """Settings of the smaller fleet that trains: devices have the same samples and share of the band."""
        count, fleet = self.training_devices, self._whole.fleet
        if count == fleet.devices:
            return {}
        equal = KNOWN[self.dataset].train_samples // fleet.devices
        return {
            "fleet.devices": count,
            "fleet.samples": equal if fleet.samples == "equal" else fleet.samples,
            "cell.bandwidth_hz": self._whole.cell.bandwidth_hz * count / fleet.devices,
        }

    def check(self, curves: Iterable[Curve]) -> None:
        """Refuse overrides of what the figure itself sets, and more devices than there are."""
        if self.training_devices > (most := self._whole.fleet.devices):
            raise InputError(f"--devices {self.devices}: the fleet has {most}; give no more")
        own = {key for curve in curves for key in curve.settings} | OWN_KEYS
        if clash := [key for key in self.overrides if any(key.startswith(name) for name in own)]:
            raise InputError(f"--set {clash[0]}: the figure sets it; use compare for other settings")

    @property
    def suffix(self) -> str:
        """Of file names."""
        return self.dataset if self.reading == "chosen" else f"{self.dataset}-{self.reading}"


@dataclass(frozen=True)
class Study:
    """A figure on one data set, with all its runs.

    Attributes:
        jobs: with learning, over `Scale.seeds`; those that would train alike are one run.
        wireless: without, over `Scale.wireless_seeds`; empty where the wireless cell plays no part.
        behind: runs that these depend on: of splits that were tried, and schedules of those that learn.
        archive: what is known of them.
    """

    name: str
    scale: Scale
    curves: tuple[Curve, ...]
    jobs: tuple[Job, ...]
    wireless: tuple[Job, ...]
    behind: tuple[Job, ...]
    archive: Archive

    @property
    def values(self) -> list[str]:
        """Of what the figure varies, in its order."""
        return list(dict.fromkeys(curve.value for curve in self.curves))

    def learned(self, curve: Curve) -> list[Kept]:
        """The runs of a curve that are done."""
        return self._known(self.jobs, curve)

    def alone(self, curve: Curve) -> list[Kept]:
        """The same, of those without learning."""
        return self._known(self.wireless, curve)

    def _known(self, jobs: Sequence[Job], curve: Curve) -> list[Kept]:
        return [kept for job in of_curve(jobs, curve.method, curve.value) if (kept := self.archive.find(job))]

    @property
    def shown(self) -> tuple[Curve, ...]:
        """The curves with runs that are done."""
        return tuple(curve for curve in self.curves if self.learned(curve))


def prepare(
    name: str, curves: Iterable[Curve], scale: Scale, out: Path, scheduling: bool, run: Run, archive: Archive
) -> Study:
    """List all runs of a figure; what the list depends on (splits, schedules) is found first, by `run`."""
    curves = list(curves)
    scale.check(curves)
    trials = [_trials(curve, scale, out) if curve.tuned else {} for curve in curves]
    behind = [job for splits in trials for jobs in splits.values() for job in jobs]
    run(behind)
    settled = tuple(
        _tuned(curve, splits, archive) if splits else curve
        for curve, splits in zip(curves, trials, strict=True)
    )
    learning = _learning_jobs(settled, scale, out)
    if not scheduling:
        return Study(name, scale, settled, learning, (), tuple(behind), archive)
    schedules = _learning_jobs(settled, scale, out, WIRELESS_ONLY)
    run(distinct(schedules))
    wireless = _wireless_jobs(settled, scale, out)
    jobs = _train_once(learning, schedules, archive)
    return Study(name, scale, settled, jobs, wireless, (*behind, *schedules), archive)


def planned(curves: Iterable[Curve], scale: Scale, out: Path, scheduling: bool) -> list[Job]:
    """The runs of a figure as far as they are known before any has run: OCEAN's splits are still open."""
    curves = list(curves)
    scale.check(curves)
    return [*_learning_jobs(curves, scale, out), *(_wireless_jobs(curves, scale, out) if scheduling else ())]


def _learning_jobs(
    curves: Iterable[Curve], scale: Scale, out: Path, extra: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Job, ...]:
    """The runs that learn; with `extra`, something else of the same devices."""
    seeds, settings = range(1, scale.seeds + 1), {**extra, **scale.fewer_devices}
    return tuple(job for curve in curves for job in _jobs(curve, scale, settings, seeds, out))


def _wireless_jobs(curves: Iterable[Curve], scale: Scale, out: Path) -> tuple[Job, ...]:
    seeds = range(1, scale.wireless_seeds + 1)
    return tuple(job for curve in curves for job in _jobs(curve, scale, WIRELESS_ONLY, seeds, out))


def _jobs(curve: Curve, scale: Scale, extra: Mapping[str, Any], seeds: Iterable[int], out: Path) -> list[Job]:
    settings = {**scale.settings(curve), **extra}
    if "run.learning" in extra:  # readings and precisions share these runs
        settings = {key: value for key, value in settings.items() if key not in HOW_DEVICES_TRAIN}
    jobs = comparison.grid(scale.dataset, settings, {}, seeds, out)
    return [replace(job, variation=(("method", curve.method), ("value", curve.value))) for job in jobs]


def _train_once(jobs: Sequence[Job], schedules: Sequence[Job], archive: Archive) -> tuple[Job, ...]:
    """One run for jobs that schedule the same devices: learning sees nothing else of the cell.

    Where one of them is done already, that one is taken.
    """
    keys = [(schedule.seed, _must(archive, schedule).schedule) for schedule in schedules]
    waiting = {job.directory for job in archive.unfinished(jobs)}
    chosen: dict[tuple[int, str], Job] = {}
    for job, which in sorted(zip(jobs, keys, strict=True), key=lambda pair: pair[0].directory in waiting):
        chosen.setdefault(which, job)
    return tuple(replace(chosen[k], variation=job.variation) for job, k in zip(jobs, keys, strict=True))


def _trials(curve: Curve, scale: Scale, out: Path) -> dict[float, list[Job]]:
    """The wireless side of a curve by its fixed split, with other seeds than the figures'."""
    return {
        split: _jobs(
            replace(curve, settings={**curve.settings, "policy.options": {"compute_fraction": split}}),
            scale,
            WIRELESS_ONLY,
            TUNING_SEEDS,
            out,
        )
        for split in SPLITS
    }


def _tuned(curve: Curve, trials: Mapping[float, Sequence[Job]], archive: Archive) -> Curve:
    """The curve with the fixed split that schedules most samples."""

    def scheduled(split: float) -> float:
        known = [_must(archive, job) for job in trials[split]]
        return float(summaries(known, SAMPLES).mean())

    best = max(SPLITS, key=scheduled)
    return replace(curve, settings={**curve.settings, "policy.options": {"compute_fraction": best}})


def _must(archive: Archive, job: Job) -> Kept:
    found = archive.find(job)
    if found is None:
        method, value = (part for _, part in job.variation)
        raise NotRun(f"who takes part is not known of {method}, {value}, seed {job.seed}; run it again")
    return found


def to_run(study: Study, only: Sequence[str] = ()) -> list[Job]:
    """The runs of a figure in their order: those without learning, then all curves with the first seed.

    What is interrupted so has pairs to compare.
    """
    learning = sorted(wanted(study.jobs, only), key=lambda job: job.seed)
    return distinct([*study.wireless, *learning])


def distinct(jobs: Iterable[Job]) -> list[Job]:
    """Each run once, though it stands behind several curves."""
    return list({job.directory: job for job in jobs}.values())


def wanted(jobs: Iterable[Job], patterns: Sequence[str]) -> list[Job]:
    """The jobs of curves "METHOD, VALUE" that are meant."""
    jobs = list(jobs)
    names = [", ".join(str(value) for _, value in job.variation) for job in jobs]
    meant = set(matching(names, patterns))
    return [job for job, name in zip(jobs, names, strict=True) if name in meant]


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that match a pattern, and none of the patterns that begin with !."""
    some = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    none = [pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")]
    return [
        name
        for name in names
        if any(fnmatch(name, pattern) for pattern in some)
        and not any(fnmatch(name, pattern) for pattern in none)
    ]


def check_patterns(patterns: Sequence[str], names: Collection[str]) -> None:
    """Refuse a pattern that matches nothing, and patterns that leave nothing."""
    for pattern in patterns:
        if not any(fnmatch(name, pattern.removeprefix("!")) for name in names):
            known = ", ".join(f"'{name}'" for name in names)
            raise InputError(f"--only {pattern!r} matches nothing of {known}")
    if not matching(names, patterns):
        raise InputError(f"--only {' '.join(map(repr, patterns))} leaves nothing to run")


def of_curve(jobs: Iterable[Job], method: str, value: str) -> list[Job]:
    return [job for job in jobs if job.variation == (("method", method), ("value", value))]


def history(kept: Sequence[Kept], quantity: str, until: int | None = None) -> tuple[Array, Array]:
    """Rounds that were evaluated, and a quantity of them, one row per run; NaN for a diverged loss.

    With `until`, only the first rounds.
    """
    accuracy = kept[0].column("accuracy")[:until]
    rounds = np.flatnonzero(~np.isnan(accuracy))
    return (rounds + 1).astype(np.float64), np.array([run.column(quantity)[rounds] for run in kept])


def final(kept: Sequence[Kept], quantity: str, until: int | None = None) -> Array:
    """Mean over the last part of the rounds, one entry per run."""
    rounds, values = history(kept, quantity, until)
    return np.asarray(values[:, rounds > (1 - LAST_PART) * rounds.max()].mean(axis=1))


def final_accuracy(kept: Sequence[Kept], until: int | None = None) -> Array:
    """In percent; NaN where the training diverged, for what it still guesses right says nothing."""
    loss = final(kept, "loss", until)
    return np.where(np.isnan(loss), np.nan, 100 * final(kept, "accuracy", until))


def summaries(kept: Sequence[Kept], metric: str) -> Array:
    """A number of the summaries, one entry per run."""
    return np.array([run.numbers[metric] for run in kept], dtype=float)


def versions_of(kept: Iterable[Kept]) -> dict[str, str]:
    """With which the runs were made; several of one package where they differ."""
    found: dict[str, set[str]] = {}
    for run in kept:
        for package, version in run.versions.items():
            found.setdefault(package, set()).add(version)
    return {package: ", ".join(sorted(versions)) for package, versions in sorted(found.items())}


def manifest_path(results: Path, figure: str, scale: Scale) -> Path:
    return results / f"{figure}-{scale.suffix}.json"


def manifest(study: Study, commands: Mapping[str, str]) -> str:
    """What made a figure: enough to make it again and to find its runs."""
    scale = study.scale
    return (
        json.dumps(
            {
                "figure": study.name,
                "dataset": scale.dataset,
                "reading": scale.reading,
                "seeds": scale.seeds,
                "wireless_seeds": scale.wireless_seeds if study.wireless else 0,
                "rounds": scale.rounds,
                "devices": scale.training_devices,
                "overrides": dict(scale.overrides),
                **commands,
                "versions": versions_of(
                    run for job in (*study.jobs, *study.wireless) if (run := study.archive.find(job))
                ),
            },
            indent=2,
        )
        + "\n"
    )
