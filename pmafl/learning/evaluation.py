"""Test accuracy and loss of every device, each on its own test samples.

Where personal models differ in their heads only, the features of the test samples are computed once for all
devices, and each head then sees only its own rows. Devices that never trained have one model in common.
Samples are numbered by class here: a device that is tested on whole classes then needs no copies of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pmafl.learning.inputs import Index, Inputs
from pmafl.learning.model import Model

Floats = NDArray[np.float64]
Rows = list[slice | Index]  # in pieces that go through the network at once
MOST_SLICES = 20  # more would be slower than one copy of the rows


@dataclass(frozen=True)
class Metrics:
    """How well the devices' models do on their own test samples.

    accuracy, loss: means over all devices, whether or not they ever trained.
    accuracy_std: standard deviation of the accuracy over devices.
    worst_tenth_accuracy: mean accuracy of the tenth of the devices that fare worst.
    global_accuracy: of one global model on the whole test set; None where models are personal.
    device_accuracy, device_loss: one value per device.

    Where values are predicted there is no accuracy, but the mean absolute error, in the unit of the targets:
    `error`, `error_std`, `worst_tenth_error`, `global_error` and `device_error` are what the accuracies are
    elsewhere, and the loss is the mean squared error.
    """

    accuracy: float | None
    loss: float
    accuracy_std: float | None
    worst_tenth_accuracy: float | None
    global_accuracy: float | None
    device_accuracy: Floats | None
    device_loss: Floats
    error: float | None = None
    error_std: float | None = None
    worst_tenth_error: float | None = None
    global_error: float | None = None
    device_error: Floats | None = None

    @property
    def device_score(self) -> Floats:
        """Accuracy or error, one value per device."""
        score = self.device_error if self.device_accuracy is None else self.device_accuracy
        assert score is not None, "one of them is measured"
        return score


class Evaluator:
    """Evaluates states of one model on one test set; `rows` lists each device's test samples."""

    def __init__(self, model: Model, test: Inputs, rows: list[Index]) -> None:
        self.model, self.test = model, test
        self._order = np.arange(len(test))
        if not model.objective.regression:
            self._order = np.argsort(test.y.cpu().numpy(), kind="stable")
        self.y = test.y[torch.from_numpy(self._order).to(test.y.device)]
        rank = np.argsort(self._order)
        distinct = {id(some): np.sort(rank[some]) for some in rows}  # devices may share one array
        self.rows = [distinct[id(some)] for some in rows]
        self._pieces = {id(some): pieces_of(some, model.chunk) for some in self.rows}
        self.everything = pieces_of(np.arange(len(test)), model.chunk)

    def begin(self, common: Tensor, features: Tensor | None = None) -> "Test":
        """A test of models that have these leading weights in common, and the `features` that follow."""
        return Test(self, common, features)

    def has_features(self, common: Tensor) -> bool:
        """Whether these leading weights are the whole extractor, so that features are the same for all."""
        apart = self.model.layered and not len(self.model.own)
        return apart and 0 < len(common) == self.model.split < self.model.parameters

    def features(self, common: Tensor, pieces: slice = slice(None)) -> Tensor:
        """What the extractor with these weights makes of the test samples, or of some pieces of them."""
        self.model.prepare_testing()
        self.model.load(common)
        return torch.cat([self.model.extractor(self.inputs(rows)) for rows in self.everything[pieces]])

    def pieces(self, device: int) -> Rows:
        """A device's test samples."""
        return self._pieces[id(self.rows[device])]

    def scores(self, devices: list[int], outcomes: Floats) -> tuple[Floats, float]:
        """Of devices with one model and these outcomes: a row each, and the accuracy on all samples."""
        means = {id(some): outcomes[:, some].mean(axis=1) for some in self.rows}
        return np.array([means[id(self.rows[device])] for device in devices]), float(outcomes[0].mean())

    def inputs(self, piece: slice | Index) -> Tensor:
        return self.test.rows(self._order[piece]).x


class Test:
    """Tests models that have their leading weights in common.

    Where these are the whole extractor, its features of the test samples are the same for all: given, or
    computed once.
    """

    def __init__(self, evaluator: Evaluator, common: Tensor, features: Tensor | None = None) -> None:
        self._evaluator, self._common = evaluator, len(common)
        model = evaluator.model
        model.prepare_testing()
        model.load(common)
        self._network: Model | nn.Module = model
        self._inputs: Callable[[slice | Index], Tensor] = evaluator.inputs
        if evaluator.has_features(common):
            known = evaluator.features(common) if features is None else features
            self._network, self._inputs = model.predictor, lambda piece: _select(known, piece)

    def score(self, device: int, own: Tensor) -> Floats:
        """Accuracy and loss of a device with its own weights behind the common ones."""
        scores: Floats = self._outcomes(own, self._evaluator.pieces(device)).mean(axis=1)
        return scores

    def score_alike(self, devices: list[int], own: Tensor) -> tuple[Floats, float]:
        """Scores of devices with the same weights, one row each, and the accuracy on the whole test set."""
        return self._evaluator.scores(devices, self.outcomes(own))

    def outcomes(self, own: Tensor, pieces: slice = slice(None)) -> Floats:
        """Score and loss of each test sample, or of some pieces of them."""
        return self._outcomes(own, self._evaluator.everything[pieces])

    def _outcomes(self, own: Tensor, rows: Rows) -> Floats:
        model, y = self._evaluator.model, self._evaluator.y
        model.prepare_testing()
        model.load(own, start=self._common)
        parts = [
            model.objective.outcomes(self._network(self._inputs(piece)), _select(y, piece)) for piece in rows
        ]
        return torch.cat(parts, dim=1).cpu().numpy()


def pieces_of(rows: Index, most: int) -> Rows:
    """Ascending row numbers in pieces of at most `most`: slices, unless that makes many pieces."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    if len(runs) > MOST_SLICES:
        return [rows[start : start + most] for start in range(0, len(rows), most)]
    starts = [(start, run[-1] + 1) for run in runs for start in range(run[0], run[-1] + 1, most)]
    return [slice(start, min(start + most, end)) for start, end in starts]


def _select(values: Tensor, piece: slice | Index) -> Tensor:
    if isinstance(piece, slice):
        return values[piece]
    return values.index_select(0, torch.from_numpy(piece).to(values.device))


def metrics_of(scores: Floats, global_score: float | None = None, regression: bool = False) -> Metrics:
    """The metrics of devices with these scores, an array of accuracy or error, and loss, for each."""
    score, loss = scores.T
    worst_first = np.sort(score)[::-1] if regression else np.sort(score)
    measured = {
        "{}": float(score.mean()),
        "{}_std": float(score.std()),
        "worst_tenth_{}": float(worst_first[: max(1, len(score) // 10)].mean()),
        "global_{}": global_score,
        "device_{}": score,
    }
    absent, present = ("accuracy", "error") if regression else ("error", "accuracy")
    named: dict[str, Any] = {name.format(absent): None for name in measured}
    named |= {name.format(present): value for name, value in measured.items()}
    return Metrics(loss=float(loss.mean()), device_loss=loss, **named)
