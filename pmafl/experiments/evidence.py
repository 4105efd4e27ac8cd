"""What was run, found again from the manifests beside the figures, and its numbers for the claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pmafl.comparison import Array, Job
from pmafl.experiments import figure_module
from pmafl.experiments.archive import Archive, Kept
from pmafl.experiments.policies import SET_EXPANSION
from pmafl.experiments.study import (
    NotRun,
    NotTested,
    Scale,
    Study,
    final,
    final_accuracy,
    history,
    manifest_path,
    of_curve,
    prepare,
    summaries,
)
from pmafl.settings import load

Value = str | int  # of what a figure varies, or its position among the values
FEWEST_DEVICES = 5  # a round, where the fleet is smaller than the paper's
ALLOCATION_SEEDS = 10  # runs whose allocations are looked at one by one


class FewerSeeds(Exception):
    """Some seeds of a curve are not done."""

    def __init__(self, seeds: frozenset[int]) -> None:
        super().__init__(seeds)
        self.seeds = seeds


class Evidence:
    """A study, or its first rounds. Accuracies are in percent; arrays have an entry per seed.

    A run that diverged has no numbers (NaN): what it still guesses right says nothing. Where runs of a curve
    are not done, `read` leaves their seeds out.
    """

    def __init__(self, study: Study, until: int | None = None, seeds: frozenset[int] | None = None) -> None:
        self.study = study
        self.until = until
        self._seeds = seeds

    def read(self, measure: Callable[[Evidence], Array]) -> Array:
        """A measure of all seeds of which every run that it asks for is done."""
        evidence = self
        while True:
            try:
                return measure(evidence)
            except FewerSeeds as fewer:
                evidence = Evidence(self.study, self.until, fewer.seeds)

    def final(self, method: str, value: Value, quantity: str = "accuracy") -> Array:
        """What the runs of a curve end with."""
        kept = self._learned(method, value)
        return final_accuracy(kept, self.until) if quantity == "accuracy" else final(kept, "loss", self.until)

    def history(self, method: str, value: Value) -> tuple[Array, Array]:
        kept = self._learned(method, value)
        rounds, values = history(kept, "accuracy", self.until)
        _, losses = history(kept, "loss", self.until)
        return rounds, np.where(np.isnan(losses), np.nan, 100 * values)

    def wireless(self, method: str, value: Value, metric: str) -> Array:
        return summaries(self._known(self.study.wireless, method, value), metric)

    @property
    def allocations(self) -> list[dict[str, Array]]:
        """What set expansion gives its devices at the preset, for some seeds."""
        found = [self.study.archive.find(job) for job in allocation_jobs(self.study)]
        known = [kept.allocations for kept in found if kept and kept.allocations]
        if not known:
            raise NotRun("no allocations are kept")
        return [{name: np.array(values) for name, values in one.items()} for one in known]

    def _learned(self, method: str, value: Value) -> list[Kept]:
        """The runs of a curve that learn, if enough devices do in each of their rounds."""
        kept = self._known(self.study.jobs, method, value)
        devices = summaries(kept, "scheduled_devices_per_round").min()
        if self.study.scale.fewer_devices and method != "local" and devices < FEWEST_DEVICES:
            raise NotTested(f"{devices:.1f} devices per round are hardly an average")
        return kept

    def _known(self, jobs: Sequence[Job], method: str, value: Value) -> list[Kept]:
        name = self.study.values[value] if isinstance(value, int) else value
        if f"{method}, {name}" not in (curve.name for curve in self.study.curves):
            raise KeyError(f"{self.study.name} has no curve {method}, {name}")
        wanted = of_curve(jobs, method, name)
        seeds = frozenset(job.seed for job in wanted) if self._seeds is None else self._seeds
        found = {job.seed: kept for job in wanted if (kept := self.study.archive.find(job)) is not None}
        if not found.keys() & seeds:
            raise NotRun(f"no run of {method}, {name} is done")
        if missing := seeds - found.keys():
            raise FewerSeeds(seeds - missing)
        return [found[seed] for seed in sorted(seeds)]


def allocation_jobs(study: Study) -> list[Job]:
    """The runs whose allocations are kept."""
    budget = load(study.scale.dataset).fleet.budget_j
    return of_curve(study.wireless, SET_EXPANSION, f"{budget:g} J")[:ALLOCATION_SEEDS]


def load_study(figure: str, dataset: str, reading: str, results: Path, archive: Archive) -> Study:
    """From the manifest of a figure and what is kept."""
    path = manifest_path(results, figure, Scale(dataset, reading))
    if not path.is_file():
        raise NotRun(f"{path.name} is not there")
    known = json.loads(path.read_text(encoding="utf-8"))
    keys = ("seeds", "wireless_seeds", "rounds", "devices", "overrides")
    scale = Scale(dataset, reading, **{key: known[key] for key in keys})
    module = figure_module(figure)
    study = prepare(
        figure, module.curves(scale), scale, Path(), module.SCHEDULING, lambda jobs: None, archive
    )
    if not any(archive.find(job) for job in (*study.jobs, *study.wireless)):
        raise NotRun(f"no run of {path.stem} is kept")
    return study


def commands_of(manifest: Path) -> dict[str, str]:
    """The commands that made a figure."""
    known = json.loads(manifest.read_text(encoding="utf-8"))
    return {key: known[key] for key in ("command", "full_scale_command") if key in known}
