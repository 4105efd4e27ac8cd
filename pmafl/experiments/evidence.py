"""What was run, found again from the manifests beside the figures, and its numbers for the claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pmafl import comparison, runs
from pmafl.comparison import Array, Job
from pmafl.experiments.study import Scale, Study, final, history, prepare, summaries
from pmafl.settings import load
from pmafl.simulation import World, channel_gain, round_problem, start, wireless_world
from pmafl.wireless.radio import spectral_efficiency

Value = str | int  # of what a figure varies, or its position among the values
LN2 = np.log(2.0)
POWER_SEEDS = 3  # runs whose allocations are looked at one by one


class NotRun(Exception):
    """There are no runs for what is asked."""


class Evidence:
    """A finished study. Accuracies are in percent; arrays have an entry a seed."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def accuracy(self, method: str, value: Value) -> Array:
        """At the end of the runs."""
        return 100 * final(self._jobs(self.study.jobs, method, value), "accuracy")

    def best(self, methods: Sequence[str], value: Value) -> Array:
        """Of the method that ends best on average."""
        return max((self.accuracy(method, value) for method in methods), key=np.mean)

    def history(self, method: str, value: Value) -> tuple[Array, Array]:
        rounds, values = history(self._jobs(self.study.jobs, method, value), "accuracy")
        return rounds, 100 * values

    def wireless(self, method: str, value: Value, metric: str) -> Array:
        return summaries(self._jobs(self.study.wireless, method, value), metric)

    @cached_property
    def marginal_powers(self) -> tuple[Array, Array]:
        """Marginal power of radio over that of CPU, and average power likewise, at free allocations."""
        jobs = [job for job in self.study.wireless if dict(job.variation)["method"] == "set-expansion"]
        ratios = [_power_ratios(job) for job in jobs if job.seed <= POWER_SEEDS]
        marginal, average = (np.concatenate(part) for part in zip(*ratios, strict=True))
        return marginal, average

    def _jobs(self, jobs: Sequence[Job], method: str, value: Value) -> list[Job]:
        values = list(dict.fromkeys(curve.value for curve in self.study.curves))
        shown = values[value] if isinstance(value, int) else value
        found = [job for job in jobs if job.variation == (("method", method), ("value", shown))]
        if not found:
            raise NotRun(f"{self.study.name} has no curve {method}, {value}")
        return found


def load_evidence(figure: str, dataset: str, reading: str, results: Path, out: Path) -> Evidence:
    """From the manifest of a figure and its run directories."""
    scale = Scale(dataset, reading)
    path = results / f"{figure}-{scale.suffix}.json"
    if not path.is_file():
        raise NotRun(f"{path} is not there")
    known = json.loads(path.read_text(encoding="utf-8"))
    scale = Scale(
        dataset, reading, known["seeds"], known["wireless_seeds"], known["rounds"], known["overrides"]
    )
    module = import_module(f"pmafl.experiments.{figure}")
    study = prepare(figure, module.curves(scale), scale, out, module.SCHEDULING, _must_be_done)
    _must_be_done([*study.jobs, *study.wireless])
    return Evidence(study)


def _must_be_done(jobs: Sequence[Job]) -> None:
    if missing := comparison.unfinished(jobs):
        raise NotRun(f"{missing[0].directory} is not finished")


def _power_ratios(job: Job) -> tuple[Array, Array]:
    """Radio's power over the CPU's, marginal and average, wherever neither is at its limit."""
    world = wireless_world(load(job.directory))
    parts = [_round_ratios(world, record) for record in runs.read_records(job.directory)]
    marginal, average = (np.concatenate(part) for part in zip(*parts, strict=True))
    return marginal, average


def _round_ratios(world: World, record: dict[str, Any]) -> tuple[Array, Array]:
    r"""Of the scheduled devices of a round, by

    .. math:: -\frac{\partial E^L}{\partial T^L} = \frac{2 E^L}{T^L}, \qquad
              -\frac{\partial E^U}{\partial T^U} = \frac{\theta B N_0}{h} (1 + 2^x (x \ln 2 - 1)).
    """
    devices = record["scheduled"]
    problem = round_problem(world, start(world), channel_gain(world, record["round"]))
    share, compute_s, upload_s, compute_j, upload_j = (
        np.array(record[name])
        for name in (
            "bandwidth_share",
            "compute_time_s",
            "upload_time_s",
            "compute_energy_j",
            "upload_energy_j",
        )
    )
    efficiency = spectral_efficiency(share, upload_s, problem.upload_bits, problem.bandwidth_hz)
    band_noise = share * problem.bandwidth_hz * problem.noise_w_per_hz / problem.channel_gain[devices]
    radio_w = band_noise * (1 + 2**efficiency * (efficiency * LN2 - 1))
    fastest_s = problem.work_cycles[devices] / problem.max_frequency_hz[devices]
    free = (compute_s > 1.001 * fastest_s) & (upload_j / upload_s < 0.999 * problem.max_power_w[devices])
    ratios = (radio_w * compute_s / (2 * compute_j), upload_j * compute_s / (upload_s * compute_j))
    return ratios[0][free], ratios[1][free]
