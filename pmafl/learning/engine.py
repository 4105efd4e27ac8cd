"""Local training of one device at a time: SGD with momentum on flat parameter vectors.

There is one model in memory, whatever the number of devices, and a device's samples are two tensors. The
gradient of a large batch is summed up exactly from chunks that fit the cache. What is trained and how long is
the algorithms' business (`algorithms/`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.sgd import sgd

from pmafl.learning.model import Model
from pmafl.settings import LearningSettings

Part = Literal["all", "extractor", "predictor"]


class Samples(NamedTuple):
    """Model inputs, ready to train on, and their classes."""

    x: Tensor
    y: Tensor


class Engine:
    """Trains and differentiates one model. Its vectors are work space; every call starts from `weights`."""

    def __init__(self, model: Model, learning: LearningSettings) -> None:
        self.model = model
        self.extractor_rate = learning.extractor_rate
        self.predictor_rate = learning.predictor_rate
        self.momentum = learning.momentum
        self.batch_size = learning.batch_size
        self.precision = torch.bfloat16 if learning.precision == "bf16" else torch.float32
        self._velocity = torch.zeros_like(model.flat)

    def train(
        self,
        weights: Tensor,
        samples: Samples,
        rng: np.random.Generator,
        iterations: int,
        part: Part = "all",
        proximal_weight: float = 0.0,
    ) -> Tensor:
        r"""Weights after `iterations` passes over the samples, momentum starting at zero.

        .. math:: m \leftarrow \mu m + \nabla F_k(w) + \rho (w - w_0), \quad w \leftarrow w - \eta m

        with the extractor's or the predictor's rate as :math:`\eta`, and :math:`\rho` the proximal weight. A
        pass is one full-batch step, or one epoch of mini-batches in an order drawn from `rng`. Training one
        `part` leaves the other as it is.
        """
        model = self.model
        model.load(weights)
        model.module.train()
        model.train_only(shared=part != "predictor", personal=part != "extractor")
        forward: Callable[[Tensor], Tensor] = model
        if part == "predictor" and model.layered and not model.stochastic:
            # The features stay the same through all iterations.
            samples = Samples(self._features(samples.x), samples.y)
            forward = model.predictor
        groups = self._groups(part)
        self._velocity.zero_()
        with self._randomness(rng):
            for batch in self._batches(samples, rng, iterations if groups else 0):
                self._differentiate(forward, batch)
                if proximal_weight:
                    model.gradient.add_(model.flat - weights, alpha=proximal_weight)
                for where, rate in groups:
                    self._step(where, rate)
        return model.flat.clone()

    def gradient(self, weights: Tensor, samples: Samples) -> tuple[float, Tensor]:
        """Mean loss over the samples and its gradient, at `weights`."""
        self.model.load(weights)
        self.model.module.train()
        self.model.train_only(shared=True, personal=True)
        loss = self._differentiate(self.model, samples)
        return loss, self.model.gradient.clone()

    def _differentiate(self, forward: Callable[[Tensor], Tensor], samples: Samples) -> float:
        self.model.gradient.zero_()
        count, total = len(samples.y), 0.0
        chunk = self.model.chunk
        for x, y in zip(torch.split(samples.x, chunk), torch.split(samples.y, chunk), strict=True):
            with self._arithmetic():
                logits = forward(x)
            loss = functional.cross_entropy(logits.float(), y, reduction="sum") / count
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def _step(self, where: slice, rate: float) -> None:
        sgd(
            [self.model.flat[where]],
            [self.model.gradient[where]],
            [self._velocity[where]],
            lr=rate,
            momentum=self.momentum,
            weight_decay=0.0,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            fused=True,
        )

    def _groups(self, part: Part) -> list[tuple[slice, float]]:
        """Slices of the parameter vector with the rate of each; one slice where one rate serves all."""
        split, end = self.model.split, self.model.parameters
        extractor = (slice(0, split), self.extractor_rate)
        predictor = (slice(split, end), self.predictor_rate)
        if part == "all" and self.extractor_rate == self.predictor_rate:
            groups = [(slice(0, end), self.extractor_rate)]
        else:
            groups = {"all": [extractor, predictor], "extractor": [extractor], "predictor": [predictor]}[part]
        return [(where, rate) for where, rate in groups if where.stop > where.start]

    def _batches(self, samples: Samples, rng: np.random.Generator, iterations: int) -> Iterator[Samples]:
        for _ in range(iterations):
            if not self.batch_size:
                yield samples
                continue
            order = torch.from_numpy(rng.permutation(len(samples.y))).to(samples.y.device)
            for rows in torch.split(order, self.batch_size):
                yield Samples(samples.x[rows], samples.y[rows])  # index_select would lose channels_last

    def _features(self, x: Tensor) -> Tensor:
        with torch.no_grad(), self._arithmetic():
            return torch.cat([self.model.extractor(rows) for rows in torch.split(x, self.model.chunk)])

    def _arithmetic(self) -> torch.autocast | nullcontext[None]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.model.flat.device.type, dtype=self.precision)

    @contextmanager
    def _randomness(self, rng: np.random.Generator) -> Iterator[None]:
        """Let dropout, which draws from torch's global state, follow `rng`, and put that state back."""
        if not self.model.stochastic:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**63)))
            yield
