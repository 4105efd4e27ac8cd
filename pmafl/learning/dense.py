"""Gradients of a network that ends in dense layers (Linear, ReLU, Dropout), these written out by hand.

Against autograd this saves what surrounds the matrix products: they go straight into the gradient vector or,
where a step is nothing but the gradient, into the weights; dropout's masks are cheaper; and nothing is
computed below the lowest trained layer. Full-batch steps save a quarter of the products too
(`_SampleSpaceLayer`). What stands below the dense layers, such as convolutions, is the stem: autograd
differentiates it. `Dense` does what `autograd.Autograd` does, which serves all other networks and is the
check for this one.
"""

import re

import torch
from torch import Tensor, nn

from pmafl.learning.inputs import Part, Samples
from pmafl.learning.model import Model, view_like
from pmafl.learning.precision import arithmetic

INTEGERS = {8: torch.int8, 16: torch.int16, 32: torch.int32}

# A network by its members' letters: Linear layers with a ReLU between them, and dropout before any. Above a
# stem something must flatten, or its outputs might not be one vector per sample.
WHOLE = re.compile(r"F*D?F*L(RD?L)*")
ABOVE_STEM = re.compile(r"(D?F+|F+D?F*)L(RD?L)*")


def dense_part(model: Model) -> int | None:
    """Where, among the model's members, its dense part begins; None if it has none that is known here."""
    known = model.layered and not (model.frozen or model.coupled or model.objective.regression)
    letters = "".join(map(_letter, model.members)) if known else ""
    if WHOLE.fullmatch(letters):
        return 0
    return next((start for start in range(len(letters)) if ABOVE_STEM.fullmatch(letters, start)), None)


def _letter(member: nn.Module) -> str:
    if type(member) is nn.Linear and member.bias is not None:
        return "L"
    if type(member) is nn.Flatten and (member.start_dim, member.end_dim) == (1, -1):
        return "F"
    return {nn.ReLU: "R", nn.Dropout: "D"}.get(type(member), "?")


class _Layer:
    """One Linear layer, its parameters and where their gradient is added as views of flat vectors.

    `dropped` is the share of its inputs that are set to zero; the others are scaled up by `boost`.
    """

    def __init__(self, linear: nn.Linear, dropped: float, weights: Tensor, gradient: Tensor) -> None:
        self.weight, self.bias = view_like(linear.weight, weights), view_like(linear.bias, weights)
        self.weight_gradient = view_like(linear.weight, gradient)
        self.bias_gradient = view_like(linear.bias, gradient)
        self.position = int(linear.weight.storage_offset())
        self.dropped, self.boost = dropped, 1 / (1 - dropped) if dropped < 1 else 0.0

    def forward(self, x: Tensor) -> Tensor:
        # Faster than addmm, which first fills the result with copies of the bias.
        return torch.mm(x, self.weight.t()).add_(self.bias)

    def add_gradient(self, x: Tensor, delta: Tensor, factor: float = 1.0) -> None:
        """From the inputs and the derivative with respect to the outputs, times a factor."""
        self.bias_gradient.add_(delta.sum(0, dtype=torch.float32), alpha=factor)
        if x.dtype == torch.float32:
            self.weight_gradient.addmm_(delta.t(), x, alpha=factor)
        else:
            self.weight_gradient.add_(torch.mm(delta.t(), x), alpha=factor)


class _SampleSpaceLayer:
    r"""A layer that has the same inputs X in every step, trained by one coefficient a sample and output.

    Every gradient of its weights is a sum over the samples, and so is all they ever change by:

    .. math:: W = W_0 + A^T X, \quad Z = Z_0 + (X X^T + 1) A

    with Z the outputs and the 1 for the bias, a weight whose input is always 1. Steps of A have for gradient
    the derivative with respect to Z; momentum and proximal term are linear and work on A as on W. A and its
    gradient lie where those of W lie (so does the rounded copy of A in bf16), so whoever makes the steps need
    not know.

    weight, bias: the model's own, which `layer` has rounded in bf16.
    """

    dropped, boost = 0.0, 1.0

    def __init__(self, layer: _Layer, weight: Tensor, bias: Tensor, x: Tensor) -> None:
        self._weight, self._bias, self._x = weight, bias, x
        self._start = weight.clone(), bias.clone()
        self._outputs = layer.forward(x)
        self._products = torch.mm(x, x.t()).add_(1.0)
        weight.zero_()
        bias.zero_()
        self._coefficients = self._in_place_of(layer.weight)
        self._gradient = self._in_place_of(layer.weight_gradient)
        self._moved = False

    def _in_place_of(self, weight: Tensor) -> Tensor:
        """The first numbers of a matrix, as many and in the shape of the outputs."""
        shape = self._outputs.shape
        return weight.view(-1)[: shape.numel()].view(shape)

    @staticmethod
    def pays(layer: _Layer, samples: int, steps: int) -> bool:
        """Whether A fits in the place of W, and takes fewer multiply-adds than W."""
        outputs, inputs = layer.weight.shape
        added, spared = samples * (inputs + (steps - 1) * outputs), 2 * (steps - 1) * inputs * outputs
        return samples <= inputs and added < spared and not layer.dropped

    def forward(self, x: Tensor) -> Tensor:
        if not self._moved:
            return self._outputs.clone()
        return torch.mm(self._products, self._coefficients).add_(self._outputs)

    def add_gradient(self, x: Tensor, delta: Tensor, factor: float = 1.0) -> None:
        self._gradient.add_(delta, alpha=factor)
        self._moved = True

    def finish(self) -> None:
        """Put the weights back in their place."""
        (weight, bias), coefficients = self._start, self._in_place_of(self._weight)
        bias += coefficients.sum(0)
        if self._x.dtype == torch.float32:
            weight.addmm_(coefficients.t(), self._x)
        else:
            weight += torch.mm(coefficients.to(self._x.dtype).t(), self._x)
        self._weight.copy_(weight)
        self._bias.copy_(bias)


class Dense:
    """Adds gradients to `model.gradient`, or makes plain steps in the weights.

    In bf16 the products run on a rounded copy of the weights; weights and gradient stay float32.

    left: how many parameters, the first ones, are left for the caller to step.
    """

    def __init__(self, model: Model, precision: torch.dtype, start: int) -> None:
        self.model, self.left, self._start = model, model.parameters, start
        self._weights = model.flat.to(precision)  # the same vector in fp32
        self._adding, self._stepping = (
            [
                _Layer(member, _dropped_before(member, model.members), self._weights, target)
                for member in model.members[start:]
                if isinstance(member, nn.Linear)
            ]
            for target in (model.gradient, model.flat)
        )
        self._layers: list[_Layer | _SampleSpaceLayer] = [*self._adding]
        self._split = self._layers_in(len(model.extractor))
        self._stem: nn.Module | None = None
        self._run = self._trained = range(len(self._layers))
        self._factors = [1.0] * len(self._layers)

    def begin(
        self, samples: Samples, part: Part, steps: int = 1, rates: tuple[float, float] | None = None
    ) -> Samples:
        """Choose what to train; its gradient starts at zero.

        What is below and draws no random numbers is run now, once, and what it gives is returned as the
        samples to train on. If all of these will be in each of `steps` batches, and more than one follows,
        `finish` must be called. If `rates` are given (the extractor's and the predictor's), `differentiate`
        makes plain steps in the dense part, at once; a batch must then fit in one chunk.
        """
        model, end = self.model, len(self._adding)
        self.left = self._adding[0].position if rates else model.parameters
        model.gradient[: self.left].zero_()
        model.prepare_training()
        model.train_only(shared=part != "predictor", personal=part != "extractor")
        split = self._split
        self._trained = {"all": range(end), "extractor": range(split), "predictor": range(split, end)}[part]
        self._layers = [*(self._stepping if rates else self._adding)]
        if rates:
            self._factors = [-rates[0]] * split + [-rates[1]] * (end - split)
        else:
            self._factors = [1.0] * end
        below = _leading_steady(model.random[: len(model.extractor)]) if part == "predictor" else 0
        self._stem = model.chain(below, self._start) if below < self._start else None
        self._run = range(self._layers_in(below), end)
        return Samples(self._run_below(samples.x, below, steps), samples.y)

    @torch.no_grad()
    def _run_below(self, x: Tensor, below: int, steps: int) -> Tensor:
        """What the first `below` members of the network give, in the form that the steps begin with."""
        if below and self._start:
            stem = self.model.chain(0, min(below, self._start))
            with arithmetic(self._weights.dtype, self._weights):
                x = torch.cat([stem(rows) for rows in torch.split(x, self.model.chunk)])
        if self._stem is not None:
            return x
        x, first = x.flatten(1).to(self._weights.dtype), self._adding[0]
        self._round_weights()
        if layers := range(self._run.start):
            x = torch.cat([self._forward(rows, layers)[-1] for rows in torch.split(x, self.model.chunk)])
        elif _SampleSpaceLayer.pays(first, len(x), steps) and len(x) <= self.model.chunk:
            # What plain steps change is the model's own layer.
            own = self._stepping[0].weight_gradient, self._stepping[0].bias_gradient
            self._layers[0] = _SampleSpaceLayer(first, *own, x)
        return x

    def _round_weights(self) -> None:
        """Bring the copy of the weights on which products run up to date."""
        if self._weights is not self.model.flat:
            self._weights.copy_(self.model.flat)

    @torch.no_grad()
    def finish(self) -> None:
        """After the last step: the model's parameters are what was trained."""
        if isinstance(first := self._layers[0], _SampleSpaceLayer):
            first.finish()

    def differentiate(self, samples: Samples, scale: float = 1.0, loss: Tensor | None = None) -> None:
        """Add `scale` times the mean loss's gradient, in the layers that are trained, or make their steps.

        The mean loss itself is added to `loss`, if that is given.
        """
        self._round_weights()
        count = len(samples.y)
        for x, y in samples.chunks(self.model.chunk):
            if self._stem is None:
                self._differentiate(x, y, scale, count, loss)
                continue
            with arithmetic(self._weights.dtype, self._weights):
                features = self._stem(x)
            inputs = features.detach().flatten(1).to(self._weights.dtype)
            delta = self._differentiate(inputs, y, scale, count, loss, features.requires_grad)
            if delta is not None:
                features.backward(delta.view(features.shape).to(features.dtype))

    @torch.inference_mode()
    def _differentiate(
        self,
        x: Tensor,
        y: Tensor,
        scale: float,
        count: int,
        loss: Tensor | None,
        wanted: bool = False,
    ) -> Tensor | None:
        """The dense part of a chunk of a batch of `count` samples; the derivative of x, where wanted."""
        mask = _mask(x, self._layers[self._run.start])
        *inputs, scores = self._forward(x if mask is None else x * mask, self._run)
        # Softmax and cross-entropy spelt out: torch's own are slow on rows of few classes.
        scores = scores.float()
        scores -= scores.amax(1, keepdim=True)
        if loss is not None:
            loss += (scores.exp().sum(1).log() - scores.gather(1, y[:, None])[:, 0]).sum() / count
        weights = scores.exp_()
        delta = weights.div_(weights.sum(1, keepdim=True).mul_(count / scale))
        delta.scatter_(1, y[:, None], -scale / count, reduce="add")
        derivative = self._backward(inputs, delta.to(x.dtype), wanted)
        return derivative if derivative is None or mask is None else derivative.mul_(mask)

    def _forward(self, x: Tensor, layers: range) -> list[Tensor]:
        """The input of each of the layers, and the output of the last."""
        values = [x]
        for number in layers:
            values.append(self._layers[number].forward(values[-1]))
            if number + 1 < len(self._layers):
                values[-1].relu_()
            if number + 1 in layers and (mask := _mask(values[-1], self._layers[number + 1])) is not None:
                values[-1].mul_(mask)
        return values

    def _backward(self, inputs: list[Tensor], delta: Tensor, wanted: bool) -> Tensor | None:
        """From the derivative with respect to the scores, `delta`, down to the lowest trained layer.

        Where the derivative with respect to the first input is wanted, down to that.
        """
        first = self._run.start
        lowest = first if wanted else self._trained.start
        for number in reversed(range(lowest, len(self._layers))):
            x, layer, below = inputs[number - first], self._layers[number], None
            if number > lowest or wanted:
                below = torch.mm(delta, self._adding[number].weight)  # before a step changes the weights
            if number in self._trained:
                layer.add_gradient(x, delta, self._factors[number])
            if number == lowest:
                return below
            assert below is not None
            delta = below.mul_(x.sign_())  # the derivative of the ReLU, and of dropout but for its factor
            if layer.dropped:
                delta.mul_(layer.boost)
        return None

    def _layers_in(self, members: int) -> int:
        """How many dense layers begin within the first members of the network."""
        return sum(isinstance(member, nn.Linear) for member in self.model.members[self._start : members])


def _leading_steady(random: list[bool]) -> int:
    """How many members there are before the first that gives something else every time."""
    return random.index(True) if True in random else len(random)


def _dropped_before(linear: nn.Module, members: list[nn.Module]) -> float:
    """The probability of the dropout between a Linear layer and what comes before it."""
    number = members.index(linear)
    while number and _letter(members[number - 1]) in "DF":
        number -= 1
        if isinstance(member := members[number], nn.Dropout):
            return member.p
    return 0.0


def _mask(x: Tensor, layer: _Layer | _SampleSpaceLayer) -> Tensor | None:
    """What dropout multiplies a layer's inputs by: 0, or the factor that keeps their mean.

    The random numbers are of as few bits as tell the probability exactly, or of 32; drawing a floating-point
    number for every input, as torch does, takes ten times as long.
    """
    if not layer.dropped:
        return None
    bits = next((bits for bits in (8, 16) if (layer.dropped * 2**bits).is_integer()), 32)
    words = torch.empty(-(-x.numel() * bits // 64), dtype=torch.int64, device=x.device)
    numbers = words.random_(-(2**63), None).view(INTEGERS[bits])[: x.numel()].view(x.shape)
    kept = torch.empty_like(x)
    torch.ge(numbers, round(layer.dropped * 2**bits) - 2 ** (bits - 1), out=kept)
    return kept.mul_(layer.boost)
