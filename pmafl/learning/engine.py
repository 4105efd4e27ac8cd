"""Local training of one device at a time: SGD with momentum on flat parameter vectors.

There is one model in memory, whatever the number of devices, and a device's samples are two tensors.
Gradients come from `dense.py` or `autograd.py`; what is trained and how long is the algorithms' business
(`algorithms/`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil

import numpy as np
import torch
from torch import Tensor

from pmafl.errors import InputError
from pmafl.learning.autograd import Autograd
from pmafl.learning.dense import Dense, dense_part
from pmafl.learning.inputs import Part, Samples
from pmafl.learning.model import Model
from pmafl.learning.precision import products
from pmafl.settings import LearningSettings

#: From several vectors and a batch to the loss that is reported, and the slope of each (`Engine.slope`).
Slopes = Callable[[Sequence[Tensor], Samples], tuple[float, Sequence[Tensor]]]
SMALLEST_UNIT = 1e-3  # keeps the momentum's numbers in a range where rounding is the same


class Engine:
    """Trains and differentiates one model, with the rates, momentum and batch size of the settings.

    An algorithm's `local` gets one. Weights are flat vectors of the length of `Model.flat`; those that come
    in are never changed, those that go out are new.

    Attributes:
        model: the network that is trained; its own vectors are work space.
        first_loss: mean loss in the first pass of the first training since it was last set to None.
    """

    def __init__(self, model: Model, learning: LearningSettings) -> None:
        self.model = model
        self.extractor_rate = learning.extractor_rate
        self.predictor_rate = learning.predictor_rate
        self.momentum = learning.momentum
        self.batch_size = learning.batch_size
        if 0 < self.batch_size < model.smallest_batch:
            raise InputError(
                f"learning.batch_size = {self.batch_size}: must be 0 or at least {model.smallest_batch}, for "
                f"learning.model = {model.name!r} normalises over the samples of a batch"
            )
        self.first_loss: float | None = None
        self._precision = torch.bfloat16 if learning.precision == "bf16" else torch.float32
        start = dense_part(model)
        if start is None:
            self._passes: Autograd | Dense = Autograd(model, self._precision)
        else:
            self._passes = Dense(model, self._precision, start)

    def train(
        self,
        weights: Tensor,
        samples: Samples,
        rng: np.random.Generator,
        iterations: int,
        part: Part = "all",
        proximal_weight: float = 0.0,
        centre: Tensor | None = None,
        correction: Tensor | None = None,
    ) -> Tensor:
        r"""Weights after `iterations` passes over the samples, momentum starting at zero.

        .. math:: m \leftarrow \mu m + \nabla F_k(w) + \rho (w - w_0) + c, \quad w \leftarrow w - \eta m

        with :math:`\eta` the rate of the extractor or of the predictor, and :math:`\mu` the momentum.

        Args:
            weights: where training starts; a flat vector of the whole model.
            samples: the device's training samples.
            rng: draws the order of mini-batches, and what dropout leaves out.
            iterations: passes over the samples. A pass is one full-batch step, or one epoch of mini-batches.
            part: what is trained, "all", "extractor" or "predictor"; the other part stays as it is.
            proximal_weight: :math:`\rho`, how strongly weights are drawn to the centre.
            centre: :math:`w_0`; left out: where training starts.
            correction: c, a flat vector that is added to the gradient of every step; left out: nothing.
        """
        model = self.model
        if not self._places(part):
            return weights.clone()
        model.load(weights)
        # Steps of one same batch may be made in another basis, in which only the start is a known centre.
        same_batch = not self.batch_size and correction is None and (centre is None or not proximal_weight)
        # Without momentum and what is added to it, a step is the gradient of one batch and nothing else.
        plain = not (self.momentum or proximal_weight) and correction is None
        plain = plain and 0 < self.batch_size <= model.chunk
        rates = (self.extractor_rate, self.predictor_rate) if plain else None
        with products(self._precision, weights), self.randomness(rng):
            samples = self._passes.begin(samples, part, iterations if same_batch else 1, rates)
            groups, gradient = self._groups(part, self._passes.left), model.gradient[: self._passes.left]
            start = model.flat.clone() if proximal_weight and centre is None else centre
            loss = torch.zeros((), device=weights.device) if self.first_loss is None else None
            passed = 0  # samples of the first pass
            # The momentum is unit * model.gradient: cheaper than to shrink it in every step.
            unit = 1.0
            for batch in self.batches(samples, rng, iterations):
                unit *= self.momentum
                if unit < SMALLEST_UNIT:
                    gradient.mul_(unit)
                    unit = 1.0
                if loss is not None and passed < len(samples.y):  # still in the first pass
                    self._passes.differentiate(batch, 1 / unit, one := torch.zeros_like(loss))
                    loss += one * (len(batch.y) / len(samples.y))
                    passed += len(batch.y)
                else:
                    self._passes.differentiate(batch, scale=1 / unit)
                if start is not None and proximal_weight:
                    model.gradient.add_(model.flat - start, alpha=proximal_weight / unit)
                if correction is not None:
                    model.gradient.add_(correction, alpha=1 / unit)
                for values, momentum, rate in groups:
                    values.add_(momentum, alpha=-rate * unit)
            self._passes.finish()
        model.collect_buffers()
        if loss is not None:
            self.first_loss = float(loss)
        return model.flat.clone()

    def descend(
        self,
        start: Sequence[Tensor],
        samples: Samples,
        rng: np.random.Generator,
        iterations: int,
        slopes: Slopes,
    ) -> list[Tensor]:
        """The steps of `train` on slopes of the caller's own, of several vectors that move together.

        Args:
            start: where the vectors start; each has the length of `Model.flat`.
            samples: the device's training samples.
            rng: draws the order of mini-batches, and what dropout leaves out.
            iterations: passes over the samples.
            slopes: from the vectors and a batch to the loss that is reported, and one slope per vector, as
                `slope` gives it. Rates and momentum are applied to these.

        Returns:
            The vectors after the last step, in the order of `start`.
        """
        points = [weights.clone() for weights in start]
        momenta = [torch.zeros_like(weights) for weights in start]
        report = self.first_loss is None
        loss, passed = 0.0, 0
        with self.randomness(rng):
            for batch in self.batches(samples, rng, iterations):
                one, found = slopes(points, batch)
                if passed < len(samples.y):  # still in the first pass
                    loss += one * len(batch.y) / len(samples.y)
                    passed += len(batch.y)
                for weights, momentum, slope in zip(points, momenta, found, strict=True):
                    momentum.mul_(self.momentum).add_(slope)
                    for place, rate in self._places("all"):
                        weights[place].add_(momentum[place], alpha=-rate)
                    for place in self._statistics():
                        weights[place].sub_(slope[place])
        if report:
            self.first_loss = loss
        return points

    def mean_gradient(self, before: Tensor, after: Tensor, samples: Samples, iterations: int) -> Tensor:
        r"""The mean of the gradients that led `train` from `before` to `after`, corrections included.

        .. math:: \frac{w_0 - w_K}{\eta \sum_{i=1}^{K} (1 + \mu + \dots + \mu^{i-1})}

        with K the number of steps. Momentum :math:`\mu` repeats early gradients in later steps, so they count
        for more; without it all count alike.

        Args:
            before: the weights that `train` started from.
            after: the weights that it gave.
            samples: what it trained on.
            iterations: how many passes it made.
        """
        steps = iterations * (ceil(len(samples.y) / self.batch_size) if self.batch_size else 1)
        repeats, total = 0.0, 0.0
        for _ in range(steps):
            repeats = self.momentum * repeats + 1
            total += repeats
        mean = torch.zeros_like(before)
        for place, rate in self._places("all"):
            mean[place] = (before[place] - after[place]) / (rate * total)
        return mean

    def slope(self, weights: Tensor, batch: Samples) -> tuple[float, Tensor]:
        """Mean loss and gradient of a batch, and in the place of running statistics what it takes off them.

        They need neither rate nor momentum: a batch has moved them as far as they go.
        """
        loss, gradient = self.gradient(weights, batch)
        self.model.collect_buffers()
        for place in self._statistics():
            gradient[place] = weights[place] - self.model.flat[place]
        return loss, gradient

    def gradient(self, weights: Tensor, samples: Samples) -> tuple[float, Tensor]:
        """Mean loss over the samples and its gradient, at `weights`."""
        self.model.load(weights)
        loss = torch.zeros((), device=weights.device)
        with products(self._precision, weights):
            self._passes.differentiate(self._passes.begin(samples, "all"), loss=loss)
        return float(loss), self.model.gradient.clone()

    def _groups(self, part: Part, end: int) -> list[tuple[Tensor, Tensor, float]]:
        """Parts of the first parameters, up to `end`, and of their gradient, with the rate of each."""
        model = self.model
        places = [(slice(place.start, min(place.stop, end)), rate) for place, rate in self._places(part)]
        return [(model.flat[w], model.gradient[w], rate) for w, rate in places if w.stop > w.start]

    def _places(self, part: Part) -> list[tuple[slice, float]]:
        """Slices of a vector that steps change, with the rate of each; one where one rate serves all."""
        model = self.model
        if part != "all" and model.undivided:
            raise InputError(model.undivided)
        first, second = model.trained
        extractor, predictor = (first, self.extractor_rate), (second, self.predictor_rate)
        if part == "all" and self.extractor_rate == self.predictor_rate and first.stop == second.start:
            places = [(slice(0, second.stop), self.extractor_rate)]
        else:
            places = {"all": [extractor, predictor], "extractor": [extractor], "predictor": [predictor]}[part]
        return [(place, rate) for place, rate in places if place.stop > place.start]

    def _statistics(self) -> list[slice]:
        """Slices of a vector that hold running statistics."""
        first, second = self.model.trained
        places = slice(first.stop, second.start), slice(second.stop, self.model.parameters)
        return [place for place in places if place.stop > place.start]

    def batches(self, samples: Samples, rng: np.random.Generator, iterations: int) -> Iterator[Samples]:
        """The batches of so many passes; the order of a pass is drawn when its first batch is asked for."""
        for _ in range(iterations):
            if not self.batch_size:
                yield samples
                continue
            order = torch.from_numpy(rng.permutation(len(samples.y))).to(samples.y.device)
            yield from self._of_two_or_more(samples.rows(order))

    def _of_two_or_more(self, samples: Samples) -> Iterable[Samples]:
        """Batches; a last one of a single sample, of which there are no statistics, joins the one before."""
        batches = list(samples.chunks(self.batch_size))
        if self.model.coupled and len(batches) > 1 and len(batches[-1].y) == 1:
            last = batches.pop()
            batches[-1] = Samples(torch.cat([batches[-1].x, last.x]), torch.cat([batches[-1].y, last.y]))
        return batches

    @contextmanager
    def randomness(self, rng: np.random.Generator) -> Iterator[None]:
        """Let a network that draws from torch's global state follow `rng`, and put that state back."""
        if not self.model.stochastic:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**63)))
            yield
