"""Test accuracy and loss of every device, each on its own test samples.

Where personal models differ in their heads only, the features of the test samples are computed once for all
devices, and each head then sees only its own rows. Devices that never trained have one model in common.
Samples are numbered by class here: a device that is tested on whole classes then needs no copies of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
    """

    accuracy: float
    loss: float
    accuracy_std: float
    worst_tenth_accuracy: float
    global_accuracy: float | None
    device_accuracy: Floats
    device_loss: Floats


class Evaluator:
    """Evaluates states of one model on one test set; `rows` lists each device's test samples."""

    def __init__(self, model: Model, test: Inputs, rows: list[Index]) -> None:
        self.model, self.test = model, test
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
        self.model.module.eval()
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

    Where these are the whole extractor, its features of the test samples are the same for all models: they are
    given, or computed once.
    """

    def __init__(self, evaluator: Evaluator, common: Tensor, features: Tensor | None = None) -> None:
        self._evaluator, self._common = evaluator, len(common)
        model = evaluator.model
        model.module.eval()
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
        """For each test sample, or some pieces of them, 1 or 0, for right or wrong, and the loss."""
        return self._outcomes(own, self._evaluator.everything[pieces])

    def _outcomes(self, own: Tensor, rows: Rows) -> Floats:
        model, y = self._evaluator.model, self._evaluator.y
        model.module.eval()
        model.load(own, start=self._common)
        parts = [_outcomes(self._network(self._inputs(piece)), _select(y, piece)) for piece in rows]
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


def _outcomes(logits: Tensor, y: Tensor) -> Tensor:
    right = (logits.argmax(dim=1) == y).double()
    # Cross-entropy spelt out, one row a class: torch is slow on rows of few classes.
    scores = logits.t().to(torch.float64, memory_format=torch.contiguous_format)
    loss = scores.logsumexp(0) - scores.gather(0, y[None])[0]
    return torch.stack([right, loss])


def metrics_of(scores: Floats, global_accuracy: float | None = None) -> Metrics:
    """The metrics of devices with these scores, an array of accuracy and loss for each."""
    accuracy, loss = scores.T
    return Metrics(
        accuracy=float(accuracy.mean()),
        loss=float(loss.mean()),
        accuracy_std=float(accuracy.std()),
        worst_tenth_accuracy=float(np.sort(accuracy)[: max(1, len(accuracy) // 10)].mean()),
        global_accuracy=global_accuracy,
        device_accuracy=accuracy,
        device_loss=loss,
    )
