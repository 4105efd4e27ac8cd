"""Test accuracy and loss of every device, each on its own test samples.

Personal models differ in their heads only, so the features of the test samples are computed once for all
devices, and each head then sees only its own rows. Devices that never trained share one head as well.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pmafl.learning.inputs import Index, Inputs
from pmafl.learning.model import Model
from pmafl.learning.rounds import LearningState

Score = tuple[float, float]  # accuracy and loss


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
    device_accuracy: NDArray[np.float64]
    device_loss: NDArray[np.float64]

    @classmethod
    def of(cls, scores: list[Score], global_accuracy: float | None = None) -> "Metrics":
        """The metrics of devices with these scores."""
        accuracy, loss = np.array(scores).T
        return cls(
            accuracy=float(accuracy.mean()),
            loss=float(loss.mean()),
            accuracy_std=float(accuracy.std()),
            worst_tenth_accuracy=float(np.sort(accuracy)[: max(1, len(accuracy) // 10)].mean()),
            global_accuracy=global_accuracy,
            device_accuracy=accuracy,
            device_loss=loss,
        )


class Evaluator:
    """Evaluates states of one model on one test set; `rows` lists each device's test samples."""

    def __init__(self, model: Model, test: Inputs, rows: list[Index]) -> None:
        self.model, self.test, self.rows = model, test, rows
        self._own_models: dict[int, tuple[Tensor, Score]] = {}

    @torch.no_grad()
    def __call__(self, state: LearningState) -> Metrics:
        model, shared = self.model, len(state.extractor)
        model.module.eval()
        model.load(state.extractor)
        global_accuracy = None
        if shared == model.parameters:
            logits = self._run(model, np.arange(len(self.test)))
            global_accuracy, _ = _score(logits, self.test.y)
            scores = [self._score_rows(logits, k) for k in range(len(self.rows))]
        elif shared == model.split and shared and model.layered:
            scores = self._personal_heads(state)
        else:
            scores = [self._whole_model(state, k) for k in range(len(self.rows))]
        return Metrics.of(scores, global_accuracy)

    def _personal_heads(self, state: LearningState) -> list[Score]:
        model = self.model
        features = self._run(model.extractor, np.arange(len(self.test)))
        model.load(state.initial_head, start=model.split)
        untrained = torch.cat([model.predictor(chunk) for chunk in torch.split(features, model.chunk)])
        scores = []
        for device, rows in enumerate(self.rows):
            if device not in state.heads:
                scores.append(self._score_rows(untrained, device))
                continue
            model.load(state.heads[device], start=model.split)
            index = torch.from_numpy(rows).to(features.device)
            chunks = torch.split(index, model.chunk)
            logits = torch.cat([model.predictor(features[chunk]) for chunk in chunks])
            scores.append(_score(logits, self.test.y[index]))
        return scores

    def _whole_model(self, state: LearningState, device: int) -> Score:
        """For models that share no features. Those that share nothing are known until they train again."""
        head, shared = state.head(device), len(state.extractor)
        known_head, score = self._own_models.get(device, (None, (0.0, 0.0)))
        if shared or known_head is not head:
            self.model.load(head, start=shared)
            rows = self.rows[device]
            score = _score(self._run(self.model, rows), self.test.y[torch.from_numpy(rows)])
            self._own_models[device] = (head, score)
        return score

    def _run(self, network: Model | nn.Module, rows: Index) -> Tensor:
        size = self.model.chunk
        chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
        return torch.cat([network(self.test.rows(chunk).x) for chunk in chunks])

    def _score_rows(self, logits: Tensor, device: int) -> Score:
        rows = torch.from_numpy(self.rows[device]).to(logits.device)
        return _score(logits[rows], self.test.y[rows])


def _score(logits: Tensor, y: Tensor) -> Score:
    accuracy = (logits.argmax(dim=1) == y).double().mean()
    return float(accuracy), float(functional.cross_entropy(logits, y))
