"""A learning task: a method and the data of all devices, as simulated devices use it.

All randomness is addressed by seed, round and device, and a state is never changed in place, so a state and a
round number are all that is needed to go on. Training and testing are cut into parts that depend on nothing
but what they are given: whoever has the task can do them, in any order, to the same bits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmafl.data import Dataset, Partition, Scaling
from pmafl.errors import InputError
from pmafl.learning.evaluation import Evaluator, Floats, Metrics, Test, metrics_of
from pmafl.learning.form import form_of
from pmafl.learning.inputs import Inputs, Samples
from pmafl.learning.method import LearningState, Method, Tensors, Trained
from pmafl.settings import LearningSettings
from pmafl.streams import stream

PARTS_A_WORKER = 4  # of a test, so that none waits long for the last
LARGEST_PART_BYTES = 8 << 20  # of what devices hold, in one part of a test


@dataclass(frozen=True)
class Work:
    """Parts of a round that may be done anywhere and in any order, each by `LearningTask.do`.

    Attributes:
        kind: what is done.
        shared: what all parts need.
        parts: what each needs by itself.
        costs: how long each takes, in any unit.
    """

    kind: Literal["train", "features", "score", "outcomes"]
    shared: Mapping[str, Any]
    parts: Sequence[Any]
    costs: Sequence[float]


Spread = Callable[[Work], Iterator[Any]]  # has the parts done and gives what came of them, in their order


class LearningTask:
    """One method, one data set split over devices.

    samples: training samples of each device. dataset, partition, inputs: what it was made of.
    """

    samples: NDArray[np.int64]

    def __init__(
        self,
        learning: LearningSettings,
        dataset: Dataset,
        partition: Partition,
        seed: int,
        inputs: Scaling = "standardised",
        numbers: Sequence[int] | None = None,
    ) -> None:
        """`numbers` are what the devices are called where all of them are known; left out: these are all."""
        _check(dataset, partition)
        self.seed, self.dataset, self.partition, self.inputs = seed, dataset, partition, inputs
        form = form_of(dataset, inputs)
        self.method = Method(learning, dataset.input_shape, dataset.outputs, seed, form)
        model = self.method.model
        self._numbers = numbers or range(len(partition.train))
        self._check_batches()
        if model.vocabulary:
            inputs = "tokens"
        layout = (model.channels_last and len(dataset.input_shape) == 3, self.method.device)
        y_train, y_test = dataset.targets(dataset.y_train), dataset.targets(dataset.y_test)
        self._train = Inputs(dataset.x_train, y_train, lambda x: dataset.scaled(x, inputs), *layout)
        test = Inputs(dataset.x_test, y_test, lambda x: dataset.scaled(x, inputs), *layout)
        self._rows = partition.train
        self._evaluator = Evaluator(model, test, partition.test)
        self._evaluated: tuple[LearningState, Metrics] | None = None
        self._test: tuple[Mapping[str, Any], Test] | None = None  # of the parts done last
        self.samples = partition.sizes

    def _check_batches(self) -> None:
        model = self.method.model
        for number, rows in zip(self._numbers, self.partition.train, strict=True):
            if len(rows) < model.smallest_batch:
                raise InputError(
                    f"data set {self.dataset.name!r}: device {number} has {len(rows)} training sample, but "
                    f"learning.model = {model.name!r} normalises over a batch and needs at least "
                    f"{model.smallest_batch}; give it more, or use norms of single samples (GroupNorm)"
                )

    def start(self) -> LearningState:
        """The state before the first round."""
        return self.method.start()

    def train(self, state: LearningState, device: int, round_index: int) -> Trained:
        """What a device does in a round."""
        work = self.training(state, [device], round_index)
        return self._train_device(work.shared, *work.parts[0])

    def training(self, state: LearningState, devices: Sequence[int], round_index: int) -> Work:
        """What these devices do in a round, a part each, which gives what `train` gives."""
        shared = {"round": round_index, "server": self.method.received(state.server)}
        parts = [(device, state.devices.get(device)) for device in devices]
        return Work("train", shared, parts, self.samples[list(devices)].tolist())

    def do(self, kind: str, shared: Mapping[str, Any], part: Any) -> Any:
        """One part of some work."""
        if self._test is not None and self._test[0] is not shared:
            self._test = None  # the features of a test that is over need not be kept
        does: dict[str, Callable[..., Any]] = {
            "train": self._train_device,
            "features": self._features,
            "score": self._score,
            "outcomes": self._outcomes,
        }
        return does[kind](shared, *part)

    def _train_device(self, shared: Mapping[str, Any], device: int, held: Tensors | None) -> Trained:
        method, rng = self.method, stream(self.seed, "batches", shared["round"], device)
        held = method.memory if held is None else held
        return method.train(device, shared["server"], held, self.device_samples(device), rng)

    def advance(
        self, state: LearningState, scheduled: Sequence[int] | NDArray[np.int64], round_index: int
    ) -> LearningState:
        """Train the scheduled devices from `state` and combine their uploads, in order of their index."""
        combining = self.method.combining(state, self.samples)
        for device in sorted({int(k) for k in scheduled}):
            combining.add(device, self.train(state, device, round_index), int(self.samples[device]))
        return combining.result()

    def evaluate(self, state: LearningState, spread: Spread | None = None, workers: int = 1) -> Metrics:
        """Accuracy and loss of all devices on their own test samples.

        With `spread` others do it, in parts for so many `workers`.
        """
        if self._evaluated is None or not _same(self._evaluated[0], state):
            self._evaluated = (state, self._evaluate(state, spread or self._do_here, workers))
        return self._evaluated[1]

    def _do_here(self, work: Work) -> Iterator[Any]:
        return (self.do(work.kind, work.shared, part) for part in work.parts)

    @torch.no_grad()
    def _evaluate(self, state: LearningState, spread: Spread, workers: int) -> Metrics:
        """Models differ behind their common weights only; untuned ones that never trained are alike."""
        method, scores = self.method, np.empty((len(self._rows), 2))
        shared: dict[str, Any] = {"server": method.received(state.server)}
        if self._evaluator.has_features(self._common(shared["server"])):
            # In another mapping: whoever tests with the features must not take it for the one without.
            features = torch.cat(list(spread(self._of_all_samples("features", shared, workers))))
            shared = {**shared, "features": features}
        tuned = method.algorithm.tune is not None
        alike = method.common == len(method.model.whole)  # one model for all
        own = range(len(scores)) if tuned else () if alike else state.devices  # who has a model of its own
        waiting = []
        for device in own:
            if (known := self._known_score(state, device)) is not None:
                scores[device] = known
            else:
                waiting.append((device, method.held(state, device)))
        if waiting:
            groups = self._groups(waiting, workers)
            work = Work("score", shared, [(group,) for group in groups], [len(group) for group in groups])
            scores[[device for device, _ in waiting]] = np.concatenate(list(spread(work)))
        if rest := [device for device in range(len(scores)) if device not in own]:
            outcomes = list(spread(self._of_all_samples("outcomes", shared, workers)))
            scores[rest], right = self._evaluator.scores(rest, np.concatenate(outcomes, axis=1))
        self._test = None
        return metrics_of(scores, right if alike else None, method.model.objective.regression)

    def _of_all_samples(
        self, kind: Literal["features", "outcomes"], shared: Mapping[str, Any], workers: int
    ) -> Work:
        """All test samples in parts of whole pieces, the same pieces for any number of workers."""
        pieces = len(self._evaluator.everything)
        bounds = np.linspace(0, pieces, min(pieces, _parts(workers)) + 1).astype(int).tolist()
        spans = list(pairwise(bounds))
        return Work(kind, shared, spans, [stop - start for start, stop in spans])

    def _groups(self, waiting: list[tuple[int, Tensors]], workers: int) -> list[list[tuple[int, Tensors]]]:
        size = ceil(len(waiting) / _parts(workers))
        if workers > 1:
            held_bytes = sum(values.nbytes for values in self.method.memory.values())
            size = max(1, min(size, LARGEST_PART_BYTES // max(1, held_bytes)))
        return [waiting[start : start + size] for start in range(0, len(waiting), size)]

    def _common(self, server: Tensors) -> Tensor:
        """The leading weights that all personal models have in common."""
        return self.method.personal(server, self.method.memory)[: self.method.common]

    @torch.no_grad()
    def _features(self, shared: Mapping[str, Any], start: int, stop: int) -> Tensor:
        return self._evaluator.features(self._common(shared["server"]), slice(start, stop))

    @torch.no_grad()
    def _score(self, shared: Mapping[str, Any], group: Sequence[tuple[int, Tensors]]) -> Floats:
        """Accuracy and loss of devices with what they hold, a row each."""
        test, common = self._testing(shared), self.method.common
        tested = ((device, self._tested(shared["server"], device, held)) for device, held in group)
        return np.stack([test.score(device, weights[common:]) for device, weights in tested])

    @torch.no_grad()
    def _outcomes(self, shared: Mapping[str, Any], start: int, stop: int) -> Floats:
        """Of the model of those that never trained, on some of the test samples."""
        test, method = self._testing(shared), self.method
        untrained = method.personal(shared["server"], method.memory)
        return test.outcomes(untrained[method.common :], slice(start, stop))

    def _testing(self, shared: Mapping[str, Any]) -> Test:
        if self._test is None or self._test[0] is not shared:
            test = self._evaluator.begin(self._common(shared["server"]), shared.get("features"))
            self._test = (shared, test)
        return self._test[1]

    def _known_score(self, state: LearningState, device: int) -> NDArray[np.float64] | None:
        """A device's score in the evaluation before, where neither the server nor the device has changed."""
        if self._evaluated is None:
            return None
        before, metrics = self._evaluated
        same = before.devices.get(device) is state.devices.get(device) and _same_server(before, state)
        return np.array([metrics.device_score[device], metrics.device_loss[device]]) if same else None

    def tested(self, state: LearningState, device: int) -> Tensor:
        """The model that a device is tested with: its personal one, tuned where the algorithm says so."""
        return self._tested(self.method.received(state.server), device, self.method.held(state, device))

    def _tested(self, server: Tensors, device: int, held: Tensors) -> Tensor:
        method = self.method
        weights = method.personal(server, held)
        if method.algorithm.tune is None:
            return weights
        number = self._numbers[device]
        rng = stream(self.seed, "tuning", number)  # the same batches in every round
        return method.tuned(number, weights, self.device_samples(device), rng)

    def device_samples(self, device: int) -> Samples:
        """A device's training samples."""
        return self._train.rows(self._rows[device])


def _parts(workers: int) -> int:
    return PARTS_A_WORKER * workers if workers > 1 else 1


def _same(one: LearningState, other: LearningState) -> bool:
    """Whether nothing has been trained between two states."""
    same_devices = one.devices.keys() == other.devices.keys() and all(
        held is other.devices[device] for device, held in one.devices.items()
    )
    return same_devices and _same_server(one, other)


def _same_server(one: LearningState, other: LearningState) -> bool:
    return one.server is other.server or not (one.server or other.server)


def _check(dataset: Dataset, partition: Partition) -> None:
    for labels in () if dataset.regression else (dataset.y_train, dataset.y_test):
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
