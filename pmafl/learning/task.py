"""A learning task: model, data and algorithm put together, as the round loop uses it.

`start` makes the state, `advance` trains the scheduled devices and aggregates, `evaluate` tests all devices.
A state is never changed in place, and all randomness is addressed by seed, round and device, so a state and a
round number are all that is needed to go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pmafl.data.dataset import Dataset
from pmafl.data.partition import Partition
from pmafl.errors import InputError
from pmafl.learning.aggregation import aggregate_for
from pmafl.learning.algorithms import find_algorithm
from pmafl.learning.architecture import ARCHITECTURES
from pmafl.learning.engine import Engine
from pmafl.learning.evaluation import Evaluator, Metrics
from pmafl.learning.inputs import Inputs, Samples
from pmafl.learning.model import build_model, count_multiply_adds
from pmafl.learning.rounds import LearningState, train_device
from pmafl.learning.workload import Workload, charge
from pmafl.plugins import blaming
from pmafl.settings import LearningSettings
from pmafl.streams import stream


@dataclass(frozen=True)
class RoundInfo:
    """What a person wants to see of a round.

    samples: training samples of the scheduled devices together.
    update_norm: Euclidean length of the extractor's change.
    """

    samples: int
    update_norm: float


class LearningTask:
    """One model, one data set split over devices, one algorithm.

    samples: training samples of each device. workload: what a round costs a device (Q, G and tau).
    shared: how many leading parameters are shared.
    """

    samples: NDArray[np.int64]
    workload: Workload
    shared: int

    def __init__(
        self,
        learning: LearningSettings,
        dataset: Dataset,
        partition: Partition,
        seed: int,
        inputs: Literal["standardised", "unit"] = "standardised",
    ) -> None:
        _check(dataset, partition)
        self.learning, self.seed = learning, seed
        self.bits_per_parameter = learning.upload_bits_per_parameter
        self.algorithm, self.algorithm_name = find_algorithm(learning), learning.algorithm
        self.device = find_device(learning.device)
        shape = dataset.input_shape
        self.model = build_model(learning, shape, dataset.classes, stream(seed, "weights"), self.device)
        self.engine = Engine(self.model, learning)
        self.shared = self.algorithm.shared(self.model.split, self.model.parameters)
        counted = (
            ARCHITECTURES[learning.model](shape, dataset.classes).multiply_adds
            if learning.model in ARCHITECTURES
            else count_multiply_adds(self.model, shape)
        )
        self.workload = charge(learning, self.algorithm, self.model.split, self.model.parameters, counted)

        layout = (self.model.convolutional and len(shape) == 3, self.device)
        self._train = Inputs(dataset.x_train, dataset.y_train, lambda x: dataset.scaled(x, inputs), *layout)
        test = Inputs(dataset.x_test, dataset.y_test, lambda x: dataset.scaled(x, inputs), *layout)
        self._rows = partition.train
        self._evaluator = Evaluator(self.model, test, partition.test)
        self.samples = partition.sizes
        self._initial = self.model.flat.clone()

    def start(self) -> LearningState:
        """The state before the first round: every device has the same initial weights."""
        return LearningState(self._initial[: self.shared].clone(), self._initial[self.shared :].clone())

    def advance(
        self, state: LearningState, scheduled: Sequence[int] | NDArray[np.int64], round_index: int
    ) -> tuple[LearningState, RoundInfo]:
        """Train the scheduled devices from `state` and aggregate their uploads, in order of their index."""
        devices = sorted({int(k) for k in scheduled})
        if not devices:
            return state, RoundInfo(0, 0.0)
        aggregate, heads = aggregate_for(self.learning, state.extractor), dict(state.heads)
        for device in devices:
            with blaming(f"algorithm {self.algorithm_name!r} in round {round_index}, device {device}"):
                payload, head = train_device(
                    self.algorithm,
                    self.engine,
                    state.extractor,
                    state.head(device),
                    self.device_samples(device),
                    stream(self.seed, "batches", round_index, device),
                    self.bits_per_parameter,
                )
            aggregate.add(payload, int(self.samples[device]))
            if len(head):
                heads[device] = head
        extractor = aggregate.result()
        change = float(torch.linalg.vector_norm(extractor - state.extractor))
        info = RoundInfo(int(self.samples[devices].sum()), change)
        return LearningState(extractor, state.initial_head, heads), info

    def evaluate(self, state: LearningState) -> Metrics:
        """Accuracy and loss of all devices on their own test samples."""
        return self._evaluator(state)

    def device_samples(self, device: int) -> Samples:
        """A device's training samples."""
        return self._train.rows(self._rows[device])


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


def find_device(name: str) -> torch.device:
    """Where training runs: "cpu", "cuda", or "auto" for what there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("learning.device = 'cuda': torch finds no GPU here; use 'auto' or 'cpu'")
    return torch.device(name)
