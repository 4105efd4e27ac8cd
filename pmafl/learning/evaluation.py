"""Test accuracy and loss of every device, each on its own test samples.

Personal models differ in their heads only, so the features of the test samples are computed once for all
devices, and each head then sees only its own rows. Devices that never trained have one head in common.
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
        self.model, self.test, self.rows = model, test, rows
        self._distinct_rows = {id(some): some for some in rows}  # devices may share one array
        self._known: dict[int, tuple[Tensor, Floats]] = {}

    @torch.no_grad()
    def __call__(self, state: LearningState) -> Metrics:
        shared = len(state.extractor)
        self.model.module.eval()
        self.model.load(state.extractor)
        outcomes = self._tester(shared)
        scores = np.empty((len(self.rows), 2))
        for device, head in state.heads.items():
            known_head, score = self._known.get(device, (None, scores[device]))
            if shared or known_head is not head:  # a model that shares nothing changes only as it trains
                score = outcomes(head, self.rows[device]).mean(axis=1)
                self._known[device] = (head, score)
            scores[device] = score
        global_accuracy = None
        if untrained := [device for device in range(len(self.rows)) if device not in state.heads]:
            common = outcomes(state.initial_head, np.arange(len(self.test)))
            means = {key: common[:, rows].mean(axis=1) for key, rows in self._distinct_rows.items()}
            scores[untrained] = [means[id(self.rows[device])] for device in untrained]
            if shared == self.model.parameters:
                global_accuracy = float(common[0].mean())
        return metrics_of(scores, global_accuracy)

    def _tester(self, shared: int) -> Callable[[Tensor, Index], Floats]:
        """A function that tests a head, over the loaded extractor, on some of the test samples.

        For each of them it gives 1 or 0, for right or wrong, and the loss.
        """
        model = self.model
        network: Model | nn.Module = model
        inputs = self._inputs
        if model.layered and 0 < shared == model.split < model.parameters:
            features = self._run(model.extractor, inputs, np.arange(len(self.test)))
            network, inputs = model.predictor, lambda rows: features.index_select(0, self._index(rows))

        def outcomes(head: Tensor, rows: Index) -> Floats:
            model.load(head, start=shared)
            logits, y = self._run(network, inputs, rows).double(), self.test.y[self._index(rows)]
            right = (logits.argmax(dim=1) == y).double()
            # Cross-entropy spelt out: torch's own is slow on rows of few classes.
            loss = logits.logsumexp(1) - logits.gather(1, y[:, None])[:, 0]
            return torch.stack([right, loss]).cpu().numpy()

        return outcomes

    def _index(self, rows: Index) -> Tensor:
        return torch.from_numpy(rows).to(self.test.y.device)

    def _inputs(self, rows: Index) -> Tensor:
        return self.test.rows(rows).x

    def _run(self, network: Model | nn.Module, inputs: Callable[[Index], Tensor], rows: Index) -> Tensor:
        starts = range(0, len(rows), self.model.chunk)
        return torch.cat([network(inputs(rows[start : start + self.model.chunk])) for start in starts])


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
