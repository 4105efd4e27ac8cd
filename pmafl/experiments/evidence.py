"""What was run, found again from the manifests beside the figures, and its numbers for the claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pmafl import comparison, runs
from pmafl.comparison import Array, Job
from pmafl.experiments import figure_module
from pmafl.experiments.study import Scale, Study, final, history, manifest_path, of_curve, prepare, summaries
from pmafl.settings import load
from pmafl.wireless import LN2, price_ratio, spectral_efficiency
from pmafl.world import World, channel_gain, make_problem, wireless_world

Value = str | int  # of what a figure varies, or its position among the values
ALLOCATION_SEEDS = 10  # runs whose allocations are looked at one by one


class NotRun(Exception):
    """There are no runs for what is asked."""


class Allocations(NamedTuple):
    """What scheduled devices were given in a run.

    gain: of the channel. clock_hz: of the CPU. marginal_ratio, average_ratio: radio's power over the CPU's,
    where neither clock nor power is at its limit.
    """

    gain: Array
    clock_hz: Array
    marginal_ratio: Array
    average_ratio: Array


class Evidence:
    """A finished study, or its first rounds. Accuracies are in percent; arrays have an entry per seed.

    A run that diverged has no numbers (NaN): what it still guesses right says nothing.
    """

    def __init__(self, study: Study, until: int | None = None) -> None:
        self.study = study
        self.until = until

    def final(self, method: str, value: Value, quantity: str = "accuracy") -> Array:
        """What the runs of a curve end with."""
        jobs = self._jobs(self.study.jobs, method, value)
        loss = final(jobs, "loss", self.until)
        if quantity == "loss":
            return loss
        return np.where(np.isnan(loss), np.nan, 100 * final(jobs, quantity, self.until))

    def history(self, method: str, value: Value) -> tuple[Array, Array]:
        jobs = self._jobs(self.study.jobs, method, value)
        rounds, values = history(jobs, "accuracy", self.until)
        _, losses = history(jobs, "loss", self.until)
        return rounds, np.where(np.isnan(losses), np.nan, 100 * values)

    def wireless(self, method: str, value: Value, metric: str) -> Array:
        return summaries(self._jobs(self.study.wireless, method, value), metric)

    @cached_property
    def allocations(self) -> list[Allocations]:
        """What set expansion gives its devices at the preset, for some seeds."""
        budget = load(self.study.scale.dataset).fleet.budget_j
        jobs = self._jobs(self.study.wireless, "set-expansion", f"{budget:g} J")
        return [_allocations(job) for job in jobs[:ALLOCATION_SEEDS]]

    def _jobs(self, jobs: Sequence[Job], method: str, value: Value) -> list[Job]:
        found = of_curve(jobs, method, self.study.values[value] if isinstance(value, int) else value)
        if not found:
            raise KeyError(f"{self.study.name} has no curve {method}, {value}")
        return found


def load_evidence(figure: str, dataset: str, reading: str, results: Path, out: Path) -> Evidence:
    """From the manifest of a figure and its run directories."""
    path = manifest_path(results, figure, Scale(dataset, reading))
    if not path.is_file():
        raise NotRun(f"{path} is not there")
    known = json.loads(path.read_text(encoding="utf-8"))
    keys = ("seeds", "wireless_seeds", "rounds", "devices", "overrides")
    scale = Scale(dataset, reading, **{key: known[key] for key in keys})
    module = figure_module(figure)
    study = prepare(figure, module.curves(scale), scale, out, module.SCHEDULING, _must_be_done)
    _must_be_done([*study.jobs, *study.wireless])
    return Evidence(study)


def _must_be_done(jobs: Sequence[Job]) -> None:
    if missing := comparison.unfinished(jobs):
        raise NotRun(f"{missing[0].directory} is not finished")


def _allocations(job: Job) -> Allocations:
    """Of all rounds of a run."""
    world = wireless_world(load(job.directory))
    rounds = [_round_allocations(world, record) for record in runs.read_records(job.directory)]
    return Allocations(*(np.concatenate(part) for part in zip(*rounds, strict=True)))


def _round_allocations(world: World, record: dict[str, Any]) -> Allocations:
    r"""Of the scheduled devices of a round, with

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
    return Allocations(gain, clock_hz, marginal[free], (average_w * compute_s / compute_j)[free])
