"""A learning task: a method and the data of all devices, as simulated devices use it.

All randomness is addressed by seed, round and device, and a state is never changed in place, so a state and a
round number are all that is needed to go on.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pmafl.data import Dataset, Partition
from pmafl.errors import InputError
from pmafl.learning.evaluation import Evaluator, Metrics, metrics_of
from pmafl.learning.inputs import Inputs, Samples
from pmafl.learning.method import LearningState, Method, Trained
from pmafl.settings import LearningSettings
from pmafl.streams import stream


class LearningTask:
    """One method, one data set split over devices. samples: training samples of each device."""

    samples: NDArray[np.int64]

    def __init__(
        self,
        learning: LearningSettings,
        dataset: Dataset,
        partition: Partition,
        seed: int,
        inputs: Literal["standardised", "unit"] = "standardised",
    ) -> None:
        _check(dataset, partition)
        self.seed, self.dataset = seed, dataset
        self.method = Method(learning, dataset.input_shape, dataset.classes, seed)
        model = self.method.model
        layout = (model.channels_last and len(dataset.input_shape) == 3, self.method.device)
        self._train = Inputs(dataset.x_train, dataset.y_train, lambda x: dataset.scaled(x, inputs), *layout)
        test = Inputs(dataset.x_test, dataset.y_test, lambda x: dataset.scaled(x, inputs), *layout)
        self._rows = partition.train
        self._evaluator = Evaluator(model, test, partition.test)
        self._evaluated: tuple[LearningState, Metrics] | None = None
        self.samples = partition.sizes

    def start(self) -> LearningState:
        """The state before the first round."""
        return self.method.start()

    def train(self, state: LearningState, device: int, round_index: int) -> Trained:
        """What a device does in a round."""
        method, rng = self.method, stream(self.seed, "batches", round_index, device)
        received, held = method.received(state.server), method.held(state, device)
        return method.train(device, received, held, self.device_samples(device), rng)

    def advance(
        self, state: LearningState, scheduled: Sequence[int] | NDArray[np.int64], round_index: int
    ) -> LearningState:
        """Train the scheduled devices from `state` and combine their uploads, in order of their index."""
        combining = self.method.combining(state)
        for device in sorted({int(k) for k in scheduled}):
            combining.add(device, self.train(state, device, round_index), int(self.samples[device]))
        return combining.result()

    def evaluate(self, state: LearningState) -> Metrics:
        """Accuracy and loss of all devices on their own test samples."""
        if self._evaluated is None or not _same(self._evaluated[0], state):
            self._evaluated = (state, self._evaluate(state))
        return self._evaluated[1]

    @torch.no_grad()
    def _evaluate(self, state: LearningState) -> Metrics:
        """Models differ behind their common weights only; those that never trained are alike."""
        method, scores = self.method, np.empty((len(self._rows), 2))
        untrained = method.personal(state.server, method.memory)
        test = self._evaluator.begin(untrained[: method.common])
        alike = method.common == len(method.model.whole)  # one model for all
        for device, held in () if alike else state.devices.items():
            if (known := self._known_score(state, device)) is not None:
                scores[device] = known
            else:
                scores[device] = test.score(device, method.personal(state.server, held)[method.common :])
        if rest := [device for device in range(len(scores)) if alike or device not in state.devices]:
            scores[rest], right = test.score_alike(rest, untrained[method.common :])
        return metrics_of(scores, right if alike else None)

    def _known_score(self, state: LearningState, device: int) -> NDArray[np.float64] | None:
        """A device's score in the evaluation before, where neither the server nor the device has changed."""
        if self._evaluated is None:
            return None
        before, metrics = self._evaluated
        same = before.devices.get(device) is state.devices[device] and _same_server(before, state)
        return np.array([metrics.device_accuracy[device], metrics.device_loss[device]]) if same else None

    def device_samples(self, device: int) -> Samples:
        """A device's training samples."""
        return self._train.rows(self._rows[device])


def _same(one: LearningState, other: LearningState) -> bool:
    """Whether nothing has been trained between two states."""
    same_devices = one.devices.keys() == other.devices.keys() and all(
        held is other.devices[device] for device, held in one.devices.items()
    )
    return same_devices and _same_server(one, other)


def _same_server(one: LearningState, other: LearningState) -> bool:
    return one.server is other.server or not (one.server or other.server)


def _check(dataset: Dataset, partition: Partition) -> None:
    for labels in (dataset.y_train, dataset.y_test):
        if labels.min() < 0 or labels.max() >= dataset.classes:
            raise InputError(
                f"data set {dataset.name!r}: has labels from {labels.min()} to {labels.max()}; "
                f"must be 0 to {dataset.classes - 1} for {dataset.classes} classes"
            )
    for purpose, parts in (("training", partition.train), ("test", partition.test)):
        if empty := [device for device, rows in enumerate(parts) if len(rows) == 0]:
            raise InputError(
                f"data set {dataset.name!r}: device {empty[0]} has no {purpose} samples; each needs one"
            )
