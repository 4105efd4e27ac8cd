"""A node as one device of the cell: its number, its data, its limits, its channel, its energy meter.

By default everything follows from the settings, so that a federation is the simulated cell on real machines.
The node's own configuration (``--node-config``) replaces what it knows better:

    partition-id        which device it is (needed; Flower's simulation sets it)
    state-dir           where its head survives a restart
    data                its own samples: a .npz file with x, y and optionally x_test, y_test
    gain-file           a file with its channel power gain, read every round; else the cell's model
    energy-counter      a file that counts microjoules upwards, as Linux's powercap does; else the model
    cycles-per-sample, max-frequency-hz, max-power-w, budget-j, circuit-power-w, receive-power-w
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context

from pmafl import data, plugins
from pmafl.data import from_arrays, read_own
from pmafl.errors import InputError
from pmafl.flower.messages import Profile, Task
from pmafl.settings import Settings, parse
from pmafl.world import World, channel_gain, wireless_world

if TYPE_CHECKING:
    from pmafl.learning.task import LearningTask

logger = logging.getLogger("flwr.pmafl")
LIMITS = (
    "cycles_per_sample",
    "max_frequency_hz",
    "max_power_w",
    "budget_j",
    "circuit_power_w",
    "receive_power_w",
)


class Device:
    """The device that a node is in one run."""

    def __init__(self, task: Task, context: Context) -> None:
        self.task, self.settings = task, _settings(task.settings)
        plugins.search(self.settings.run.plugin_path)
        self._config = context.node_config
        self._shared_state = str(context.run_config.get("state-dir", ""))
        number, devices = self._config.get("partition-id"), self.settings.fleet.devices
        if not isinstance(number, int) or not 0 <= number < devices:
            raise InputError(
                f"node config partition-id = {number}: must be a whole number from 0 to {devices - 1}"
            )
        self.number = number

    @property
    def state_directory(self) -> Path | None:
        """Where the head is kept; virtual nodes of a simulation have one directory together."""
        if own := self._config.get("state-dir"):
            return Path(str(own))
        return Path(self._shared_state) / f"device-{self.number}" if self._shared_state else None

    def profile(self) -> Profile:
        world, row = _world(self.task.settings), self.number
        limits = {name: self._number(name, float(getattr(world.fleet, name)[row])) for name in LIMITS}
        samples = len(self._own_data().y_train) if "data" in self._config else int(world.fleet.samples[row])
        return Profile(row, samples, **limits, channel_gain=self._gain(world))

    def learning_task(self) -> LearningTask:
        """Model, algorithm and this device's samples alone."""
        from pmafl.learning.task import LearningTask

        dataset = self._own_data() if "data" in self._config else self._share()
        everything = [np.arange(len(labels)) for labels in dataset.labels()]
        partition = data.Partition([everything[0]], [everything[1]])
        seed, inputs = self.settings.run.seed, self.settings.data.inputs
        numbers = [self.number]
        return LearningTask(self.settings.learning, dataset, partition, seed, inputs, numbers)

    @contextmanager
    def metered(self) -> Iterator[Meter]:
        """Measure the time, and the energy where there is a counter, of what happens inside."""
        counter = str(self._config.get("energy-counter", ""))
        meter, before_uj, began_s = Meter(), _counter_uj(counter), time.perf_counter()
        yield meter
        meter.time_s, after_uj = time.perf_counter() - began_s, _counter_uj(counter)
        if before_uj is not None and after_uj is not None:
            wrapped = _counter_uj(str(Path(counter).with_name("max_energy_range_uj"))) or 0
            spent_uj = after_uj - before_uj + (wrapped if after_uj < before_uj else 0)
            meter.energy_j = max(spent_uj, 0) / 1e6

    def _share(self) -> data.Dataset:
        """This device's part of the settings' data set."""
        dataset, partition = _split(self.task.settings)
        train, test = partition.train[self.number], partition.test[self.number]
        return replace(
            dataset,
            x_train=dataset.x_train[train],
            y_train=dataset.y_train[train],
            x_test=dataset.x_test[test],
            y_test=dataset.y_test[test],
        )

    def _own_data(self) -> data.Dataset:
        """The node's own samples, scaled as everyone's."""
        path, task = Path(str(self._config["data"])), self.task
        reading = data.reading_of(self.settings.data)
        reading = replace(reading, task="regression" if task.target_std else "classification")
        dataset = from_arrays(str(path), read_own(path, reading), str(path), task.classes, reading)
        if dataset.input_shape != tuple(task.input_shape):
            raise InputError(
                f"node config data = {path}: a sample is {dataset.input_shape}; "
                f"the run needs {tuple(task.input_shape)}"
            )
        return replace(
            dataset,
            mean=np.array(task.mean, np.float32),
            std=np.array(task.std, np.float32),
            target_mean=tuple(task.target_mean),
            target_std=tuple(task.target_std),
        )

    def _gain(self, world: World) -> float:
        if not (path := self._config.get("gain-file")):
            return float(channel_gain(world, self.task.round)[self.number])
        try:
            return float(Path(str(path)).read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise InputError(f"node config gain-file = {path}: must hold one number ({error})") from None

    def _number(self, name: str, otherwise: float) -> float:
        key = name.replace("_", "-")
        value: Any = self._config.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"node config {key} = {value!r}: must be a number")
        return float(value)


@dataclass
class Meter:
    """What was measured; no energy without a counter."""

    time_s: float = 0.0
    energy_j: float | None = None


def _counter_uj(path: str) -> int | None:
    """The state of an energy counter, or None where there is none that can be read."""
    if not path:
        return None
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        logger.warning("energy counter %s cannot be read (%s): the model's energy is reported", path, error)
        return None


# A simulation runs many devices in one process: what they have in common is built once.
@lru_cache(maxsize=2)  # every message brings them
def _settings(text: str) -> Settings:
    return parse(text)


@lru_cache(maxsize=1)
def _world(settings: str) -> World:
    return wireless_world(_settings(settings))


@lru_cache(maxsize=1)
def _split(settings: str) -> tuple[data.Dataset, data.Partition]:
    parsed = _settings(settings)
    dataset = data.load_data(parsed.data)
    return dataset, data.split_data(parsed, dataset)
