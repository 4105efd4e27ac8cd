"""Test accuracy and loss of every device, each on its own test samples.

Personal models differ in their heads only, so the features of the test samples are computed once for all
devices, and each head then sees only its own rows. Devices that never trained have one head in common.
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
from pmafl.learning.rounds import LearningState

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
    device_accuracy, device_loss: one value a device.
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
        self._y = test.y[torch.from_numpy(self._order).to(test.y.device)]
        rank = np.argsort(self._order)
        distinct = {id(some): np.sort(rank[some]) for some in rows}  # devices may share one array
        self._rows = [distinct[id(some)] for some in rows]
        self._pieces = {id(some): pieces_of(some, model.chunk) for some in self._rows}
        self._all = pieces_of(np.arange(len(test)), model.chunk)
        self._known: dict[int, tuple[Tensor, Floats]] = {}
        self._latest: tuple[LearningState, Metrics] | None = None

    def __call__(self, state: LearningState) -> Metrics:
        if self._latest is None or self._latest[0] is not state:  # the same after rounds without devices
            self._latest = (state, self._evaluate(state))
        return self._latest[1]

    @torch.no_grad()
    def _evaluate(self, state: LearningState) -> Metrics:
        shared = len(state.extractor)
        self.model.module.eval()
        self.model.load(state.extractor)
        outcomes = self._tester(shared)
        scores = np.empty((len(self._rows), 2))
        for device, head in state.heads.items():
            known_head, score = self._known.get(device, (None, scores[device]))
            if shared or known_head is not head:  # a model that shares nothing changes only as it trains
                score = outcomes(head, self._pieces[id(self._rows[device])]).mean(axis=1)
                self._known[device] = (head, score)
            scores[device] = score
        global_accuracy = None
        if untrained := [device for device in range(len(self._rows)) if device not in state.heads]:
            common = outcomes(state.initial_head, self._all)
            means = {id(rows): common[:, rows].mean(axis=1) for rows in self._rows}
            scores[untrained] = [means[id(self._rows[device])] for device in untrained]
            if shared == self.model.parameters:
                global_accuracy = float(common[0].mean())
        return metrics_of(scores, global_accuracy)

    def _tester(self, shared: int) -> Callable[[Tensor, Rows], Floats]:
        """A function that tests a head, over the loaded extractor, on some of the test samples.

        For each of them it gives 1 or 0, for right or wrong, and the loss.
        """
        model = self.model
        network: Model | nn.Module = model
        inputs = self._inputs
        if model.layered and 0 < shared == model.split < model.parameters:
            features = torch.cat([model.extractor(inputs(piece)) for piece in self._all])
            network, inputs = model.predictor, lambda piece: _select(features, piece)

        def outcomes(head: Tensor, rows: Rows) -> Floats:
            model.load(head, start=shared)
            parts = [_outcomes(network(inputs(piece)), _select(self._y, piece)) for piece in rows]
            return torch.cat(parts, dim=1).cpu().numpy()

        return outcomes

    def _inputs(self, piece: slice | Index) -> Tensor:
        return self.test.rows(self._order[piece]).x


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
