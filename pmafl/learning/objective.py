"""What a network is trained for and how its test is scored: classes, or values to predict.

Each has a loss, whose sum over samples is differentiated, and a score beside it that people read: whether a
class is right, and how far a value is off.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Objective:
    """A loss and a score of a network's outputs (N, outputs) against targets.

    summed: the loss, summed over the samples. outcomes: score and loss of each sample, shape (2, N).
    """

    regression: bool
    summed: Callable[[Tensor, Tensor], Tensor]
    outcomes: Callable[[Tensor, Tensor], Tensor]


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(logits, y, reduction="sum")


def _right_or_wrong(logits: Tensor, y: Tensor) -> Tensor:
    """For each of the samples 1 or 0, for right or wrong, and the cross-entropy."""
    right = (logits.argmax(dim=1) == y).double()
    # Cross-entropy spelt out, one row a class: torch is slow on rows of few classes.
    scores = logits.t().to(torch.float64, memory_format=torch.contiguous_format)
    loss = scores.logsumexp(0) - scores.gather(0, y[None])[0]
    return torch.stack([right, loss])


def _squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs - y).square().mean(dim=1).sum()


CLASSES = Objective(False, _cross_entropy, _right_or_wrong)


def values(target_std: tuple[float, ...]) -> Objective:
    """Values with mean 0 and deviation 1, whose errors are told in units of `target_std`.

    The loss is the mean squared error of what the network gives: 1 for one that always gives the mean.
    """

    def outcomes(outputs: Tensor, y: Tensor) -> Tensor:
        """For each of the samples the absolute error in its unit and the squared one, means over values."""
        off = outputs.double() - y
        unit = torch.tensor(target_std, dtype=off.dtype, device=off.device)
        return torch.stack([(off.abs() * unit).mean(dim=1), off.square().mean(dim=1)])

    return Objective(True, _squared_error, outcomes)
