"""Gradients of a dense network (Linear and ReLU in turn, cross-entropy on top), written out by hand.

Against autograd this saves what surrounds the matrix products: they go straight into the gradient vector, and
nothing is computed below the lowest trained layer. Full-batch steps save a quarter of the products too
(`_SampleSpaceLayer`). `Dense` does what `autograd.Autograd` does, which serves all other networks and is the
check for this one.
"""

import torch
from torch import Tensor, nn

from pmafl.learning.inputs import Part, Samples
from pmafl.learning.model import Model, view_like


def is_dense(model: Model) -> bool:
    """Whether the model is a chain of Linear layers with bias and a ReLU after each but the last."""
    kinds = [type(member) for member in model.members if not _flattens(member)]
    layers = _linear_layers(model.members)
    chain: list[type[nn.Module]] = [nn.Linear, nn.ReLU] * len(layers)
    whole = model.layered and not (model.frozen or model.objective.regression)
    return whole and kinds == chain[:-1] and all(layer.bias is not None for layer in layers)


class _Layer:
    """One Linear layer, its parameters and their gradient as views of flat vectors."""

    def __init__(self, linear: nn.Linear, weights: Tensor, gradient: Tensor) -> None:
        self.weight, self.bias = view_like(linear.weight, weights), view_like(linear.bias, weights)
        self.weight_gradient = view_like(linear.weight, gradient)
        self.bias_gradient = view_like(linear.bias, gradient)

    def forward(self, x: Tensor) -> Tensor:
        # Faster than addmm, which first fills the result with copies of the bias.
        return torch.mm(x, self.weight.t()).add_(self.bias)

    def add_gradient(self, x: Tensor, delta: Tensor) -> None:
        """From the inputs and the derivative with respect to the outputs."""
        self.bias_gradient.add_(delta.sum(0, dtype=torch.float32))
        if x.dtype == torch.float32:
            self.weight_gradient.addmm_(delta.t(), x)
        else:
            self.weight_gradient.add_(delta.t() @ x)


class _SampleSpaceLayer:
    r"""A layer that has the same inputs X in every step, trained by one coefficient a sample and output.

    Every gradient of its weights is a sum over the samples, and so is all they ever change by:

    .. math:: W = W_0 + A^T X, \quad Z = Z_0 + (X X^T + 1) A

    with Z the outputs and the 1 for the bias, a weight whose input is always 1. Steps of A have for gradient
    the derivative with respect to Z; momentum and proximal term are linear and work on A as on W. A and its
    gradient lie where those of W lie, so whoever makes the steps need not know.
    """

    def __init__(self, layer: _Layer, x: Tensor) -> None:
        self._layer, self._x = layer, x
        self._weight, self._bias = layer.weight.clone(), layer.bias.clone()
        self._outputs = layer.forward(x)
        self._products = torch.mm(x, x.t()).add_(1.0)
        layer.weight.zero_()
        layer.bias.zero_()
        shape = self._outputs.shape
        self._coefficients = layer.weight.view(-1)[: shape.numel()].view(shape)
        self._gradient = layer.weight_gradient.view(-1)[: shape.numel()].view(shape)
        self._moved = False

    @staticmethod
    def pays(layer: _Layer, samples: int, steps: int) -> bool:
        """Whether A fits in the place of W, and takes fewer multiply-adds than W."""
        outputs, inputs = layer.weight.shape
        added, spared = samples * (inputs + (steps - 1) * outputs), 2 * (steps - 1) * inputs * outputs
        return samples <= inputs and added < spared

    def forward(self, x: Tensor) -> Tensor:
        if not self._moved:
            return self._outputs.clone()
        return torch.mm(self._products, self._coefficients).add_(self._outputs)

    def add_gradient(self, x: Tensor, delta: Tensor) -> None:
        self._gradient.add_(delta)
        self._moved = True

    def finish(self) -> None:
        """Put the weights back in their place."""
        bias = self._bias + self._coefficients.sum(0)
        self._layer.weight.copy_(self._weight.addmm_(self._coefficients.t(), self._x))
        self._layer.bias.copy_(bias)


class Dense:
    """Adds gradients to `model.gradient`.

    In bf16 the products run on a rounded copy of the weights; weights and gradient stay float32.
    """

    def __init__(self, model: Model, precision: torch.dtype) -> None:
        self.model = model
        self._weights = model.flat.to(precision)  # the same vector in fp32
        self._plain = [
            _Layer(linear, self._weights, model.gradient) for linear in _linear_layers(model.members)
        ]
        self._layers: list[_Layer | _SampleSpaceLayer] = [*self._plain]
        self._split = len(_linear_layers(list(model.extractor.modules())))
        self._trained = range(len(self._layers))

    @torch.no_grad()
    def begin(self, samples: Samples, part: Part, steps: int = 1) -> Samples:
        """Choose the layers to train; their gradient starts at zero.

        Layers below them are run now, once, and what they give is returned as the samples to train on. If all
        of these will be in each of `steps` batches, and more than one follows, `finish` must be called.
        """
        self.model.gradient.zero_()
        self._layers = [*self._plain]
        split, end = self._split, len(self._layers)
        self._trained = {"all": range(end), "extractor": range(split), "predictor": range(split, end)}[part]
        x = samples.x.flatten(1).to(self._weights.dtype)
        if below := range(self._trained.start):
            self._weights.copy_(self.model.flat)
            x = torch.cat([self._forward(rows, below)[-1] for rows in torch.split(x, self.model.chunk)])
        elif (
            _SampleSpaceLayer.pays(self._plain[0], len(x), steps)
            and x.dtype == torch.float32
            and len(x) <= self.model.chunk
        ):
            self._layers[0] = _SampleSpaceLayer(self._plain[0], x)
        return Samples(x, samples.y)

    @torch.no_grad()
    def finish(self) -> None:
        """After the last step: the model's parameters are what was trained."""
        if isinstance(first := self._layers[0], _SampleSpaceLayer):
            first.finish()

    @torch.inference_mode()
    def differentiate(self, samples: Samples, scale: float = 1.0, loss: Tensor | None = None) -> None:
        """Add `scale` times the mean loss's gradient, in the layers that are trained.

        The mean loss itself is added to `loss`, if that is given.
        """
        if self._weights is not self.model.flat:
            self._weights.copy_(self.model.flat)
        count = len(samples.y)
        for x, y in samples.chunks(self.model.chunk):
            *inputs, scores = self._forward(x, range(self._trained.start, len(self._layers)))
            # Softmax and cross-entropy spelt out: torch's own are slow on rows of few classes.
            scores = scores.float()
            scores -= scores.amax(1, keepdim=True)
            if loss is not None:
                loss += (scores.exp().sum(1).log() - scores.gather(1, y[:, None])[:, 0]).sum() / count
            weights = scores.exp_()
            delta = weights.div_(weights.sum(1, keepdim=True).mul_(count / scale))
            delta.scatter_(1, y[:, None], -scale / count, reduce="add")
            self._backward(inputs, delta.to(x.dtype))

    def _forward(self, x: Tensor, layers: range) -> list[Tensor]:
        """The input of each of the layers, and the output of the last."""
        values = [x]
        for number in layers:
            values.append(self._layers[number].forward(values[-1]))
            if number + 1 < len(self._layers):
                values[-1].relu_()
        return values

    def _backward(self, inputs: list[Tensor], delta: Tensor) -> None:
        """From the derivative with respect to the scores, `delta`, down to the lowest trained layer."""
        start = self._trained.start
        for number in reversed(range(start, len(self._layers))):
            x = inputs[number - start]
            if number in self._trained:
                self._layers[number].add_gradient(x, delta)
            if number > start:
                delta = torch.mm(delta, self._plain[number].weight).mul_(x.sign_())  # the ReLU's derivative


def _linear_layers(members: list[nn.Module]) -> list[nn.Linear]:
    return [member for member in members if isinstance(member, nn.Linear)]


def _flattens(member: nn.Module) -> bool:
    return isinstance(member, nn.Flatten) and (member.start_dim, member.end_dim) == (1, -1)
