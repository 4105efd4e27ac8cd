"""Devices as the round loop sees them, and the simulated ones.

The loop asks devices what they are and what their channels are, has some of them train, and has all of them
test. Simulated devices and those behind Flower are two implementations of this one protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pmafl.scheduling import Decision
from pmafl.streams import stream
from pmafl.wireless import Array, Fleet, Mask, usable_gain
from pmafl.world import World

if TYPE_CHECKING:
    from pmafl.learning.evaluation import Metrics
    from pmafl.learning.method import LearningState, Trained

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Report:
    """What devices say before a round.

    Attributes:
        fleet: what each device is.
        gain: of its channel.
        available: whether it can be reached at all; left out: everyone.
    """

    fleet: Fleet
    gain: Array
    available: Mask = field(default_factory=lambda: np.array(True))


@dataclass(frozen=True, eq=False)
class Result:
    """What came from a scheduled device.

    Attributes:
        device: its number.
        trained: its upload, and what it holds now where that is known here; None without learning.
        energy_j: for computing and uploading, where it reported its own.
        notes: more for the record.
    """

    device: int
    trained: Trained | None
    energy_j: tuple[float, float] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


class Devices(Protocol):
    """What the round loop needs of devices. What they remember here is saved with the run."""

    def restore(self, memory: Arrays) -> None:
        """Go back to what was remembered; an empty mapping is the start of a run."""

    def memory(self) -> Arrays:
        """What the next round needs."""

    def report(self, round_index: int) -> Report:
        """What the devices are in this round, and their channels."""

    def train(self, round_index: int, decision: Decision, learning: LearningState | None) -> Iterator[Result]:
        """Have the scheduled devices train; gives what arrives, in order of their numbers."""

    def evaluate(self, round_index: int, learning: LearningState, failed: Iterable[int]) -> Metrics | None:
        """Have devices test their models, but those that failed in this round."""

    def notes(self, round_index: int) -> Mapping[str, Any]:
        """More for the record of a round that is over."""


class SimulatedDevices:
    """The devices of a world, in this process. They remember the state of their channels."""

    def __init__(self, world: World) -> None:
        self._world, self._seed = world, world.settings.run.seed
        self._channels: Arrays = {}

    def restore(self, memory: Arrays) -> None:
        self._channels = memory

    def memory(self) -> Arrays:
        return self._channels

    def report(self, round_index: int) -> Report:
        channel = self._world.channel
        if round_index == 0:
            self._channels = channel.start(stream(self._seed, "fading"))
        rng = stream(self._seed, "fading", round_index)
        gain, self._channels = channel.gains(self._channels, round_index, rng)
        return Report(self._world.fleet, usable_gain(gain))

    def train(self, round_index: int, decision: Decision, learning: LearningState | None) -> Iterator[Result]:
        task = self._world.task
        for device in decision.scheduled_devices:
            trained = task.train(learning, device, round_index) if task and learning else None
            yield Result(device, trained)

    def evaluate(self, round_index: int, learning: LearningState, failed: Iterable[int]) -> Metrics | None:
        assert self._world.task is not None, "only a world with learning is evaluated"
        return self._world.task.evaluate(learning)

    def notes(self, round_index: int) -> Mapping[str, Any]:
        return {}
