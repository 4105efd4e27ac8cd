"""Simulated devices that are trained and tested by workers, where that is faster than to do it here.

Whoever does it, the result is the same to the bit, so that may be decided by what the clock says.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pmafl.devices import Result, SimulatedDevices
from pmafl.errors import InputError
from pmafl.scheduling import Decision
from pmafl.workers.cores import cores
from pmafl.workers.crew import Crew
from pmafl.world import World

if TYPE_CHECKING:
    from pmafl.learning.evaluation import Metrics
    from pmafl.learning.method import LearningState
    from pmafl.learning.task import LearningTask, Work

WARM_UP_S = 0.2  # what the first training in a process may take beyond its work
AHEAD_BYTES = 256 << 20  # of uploads that wait for those of devices before them

Engine = Literal["local", "ray"]


@dataclass(frozen=True)
class Team:
    """Who trains: so many `workers` (default: as many as there are cores), here or on a Ray cluster."""

    workers: int | None = None
    engine: Engine = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"workers = {self.workers}: must be at least 1")
        if self.address is not None and self.engine != "ray":
            raise InputError(f"address = {self.address!r}: is a Ray cluster's; it needs the engine 'ray'")


@contextmanager
def simulated_devices(world: World, team: Team, threads: int = 1) -> Iterator[SimulatedDevices]:
    """The devices of a world, with a team that ends with the context; `threads` that training uses."""
    crew = _crew(world, team, threads)
    if crew is None or world.task is None:
        yield SimulatedDevices(world)
        return
    try:
        yield WorkerDevices(world, world.task, crew)
    finally:
        crew.close()


def _crew(world: World, team: Team, threads: int) -> Crew | None:
    """Those who train; None if this process does it alone."""
    if world.task is None:
        return None
    if team.engine == "ray":
        from pmafl.workers.cluster import Cluster

        cluster = Cluster(team.address, world.task, world.settings)
        return Crew(cluster, team.workers or cluster.cores)
    size = team.workers or cores()
    reason = _reason_to_be_alone(world.task, threads)
    if reason and team.workers not in (None, 1):
        print(f"--workers {team.workers}: {reason}, so there is one", file=sys.stderr)
    if reason or size == 1:
        return None
    from pmafl.workers.processes import Forks

    return Crew(Forks(world.task), size)


def _reason_to_be_alone(task: LearningTask, threads: int) -> str:
    if not hasattr(os, "memfd_create"):
        return "workers are forked on Linux alone"
    if task.method.device.type != "cpu":
        return "a GPU is not shared by processes"
    if threads > 1:  # which would not be there after a fork
        return f"the run began with {threads} threads"
    if current_process().daemon:
        return "this is a daemonic process, which may have no children"
    return ""


class WorkerDevices(SimulatedDevices):
    """The devices of a world, in workers."""

    def __init__(self, world: World, task: LearningTask, crew: Crew) -> None:
        super().__init__(world)
        self._task, self._crew = task, crew
        self._seconds_a_sample: float | None = None  # what training took last
        self._test_s: float | None = None  # what testing takes in one process
        self._tested: Metrics | None = None
        held_bytes = sum(values.nbytes for values in task.method.memory.values())
        upload_bytes = float(np.max(task.method.workload.upload_bits)) / 8
        self._window = max(2 * crew.size + 2, int(AHEAD_BYTES / (held_bytes + upload_bytes + 1)))

    def train(self, round_index: int, decision: Decision, learning: LearningState | None) -> Iterator[Result]:
        assert learning is not None, "workers train"
        left = decision.scheduled_devices
        while left and not self._pays(self._training_s(left), len(left)):
            began_s = time.perf_counter()
            result = Result(left[0], self._task.train(learning, left[0], round_index))
            self._note_training(left[0], time.perf_counter() - began_s)
            yield result
            left = left[1:]
        if left:
            work = self._task.training(learning, left, round_index)
            for device, answer in zip(left, self._crew.spread(work, self._window), strict=True):
                self._note_training(device, answer.seconds)
                yield Result(device, answer.result)

    def evaluate(self, round_index: int, learning: LearningState, failed: Iterable[int]) -> Metrics | None:
        began_s, workers_s = time.perf_counter(), 0.0

        def spread(work: Work) -> Iterator[Any]:
            nonlocal workers_s
            for answer in self._crew.spread(work, window=len(work.parts)):
                workers_s += answer.seconds
                yield answer.result

        if self._crew.hired if self._test_s is None else self._pays(self._test_s, self._crew.size):
            metrics = self._task.evaluate(learning, spread, self._crew.size)
        else:
            metrics = self._task.evaluate(learning)
            workers_s = time.perf_counter() - began_s
        if metrics is not self._tested:  # else nothing had changed, and nothing was done
            self._tested, self._test_s = metrics, workers_s
        return metrics

    def _pays(self, seconds: float | None, parts: int) -> bool:
        """Whether workers do so many parts faster than this process, which takes so many seconds."""
        if seconds is None or parts < 2:
            return False
        return seconds * (1 - 1 / min(self._crew.size, parts)) > self._crew.overhead_s(parts)

    def _training_s(self, devices: Sequence[int]) -> float | None:
        if self._seconds_a_sample is None:
            return None
        return self._seconds_a_sample * float(self._task.samples[list(devices)].sum())

    def _note_training(self, device: int, seconds: float) -> None:
        if self._seconds_a_sample is not None or seconds > WARM_UP_S:
            self._seconds_a_sample = seconds / float(self._task.samples[device])
        else:
            self._seconds_a_sample = 0.0
