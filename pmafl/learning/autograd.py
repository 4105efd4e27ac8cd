"""Gradients of any network by torch's automatic differentiation, on flat vectors.

The gradient of a large batch is summed up exactly from chunks that fit the cache.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from pmafl.learning.inputs import Part, Samples
from pmafl.learning.model import Model
from pmafl.learning.precision import arithmetic


class Autograd:
    """Adds gradients to `model.gradient`. In bf16 torch's autocast chooses what is rounded.

    left: how many parameters are left for the caller to step: all.
    """

    def __init__(self, model: Model, precision: torch.dtype) -> None:
        self.model, self.left, self._precision = model, model.parameters, precision
        self._forward: Callable[[Tensor], Tensor] = model

    def begin(
        self, samples: Samples, part: Part, steps: int = 1, rates: tuple[float, float] | None = None
    ) -> Samples:
        """Choose the part to train; its gradient starts at zero. Steps and rates change nothing.

        Where only the predictor is trained, the features stay as they are: they are computed now, once, and
        returned as the samples to train on.
        """
        model = self.model
        model.gradient.zero_()
        model.prepare_training()
        model.train_only(shared=part != "predictor", personal=part != "extractor")
        self._forward = model
        if part == "predictor" and model.layered and not (model.stochastic or model.coupled):
            self._forward = model.predictor
            with torch.no_grad(), arithmetic(self._precision, model.flat):
                features = [model.extractor(rows) for rows in torch.split(samples.x, model.chunk)]
            return Samples(torch.cat(features), samples.y)
        return samples

    def finish(self) -> None:
        """After the last step there is nothing left to do."""

    def differentiate(self, samples: Samples, scale: float = 1.0, loss: Tensor | None = None) -> None:
        """Add `scale` times the mean loss's gradient, in the part that is trained.

        The mean loss itself is added to `loss`, if that is given.
        """
        count = len(samples.y)
        # Where samples of a batch see each other, it goes through the network whole.
        for x, y in samples.chunks(count if self.model.coupled else self.model.chunk):
            with arithmetic(self._precision, self.model.flat):
                scores = self._forward(x)
            share = self.model.objective.summed(scores.float(), y) / count
            if share.requires_grad:  # where nothing that is trained has an effect, the gradient is zero
                (share * scale).backward()  # type: ignore[no-untyped-call]
            if loss is not None:
                loss += share.detach()
