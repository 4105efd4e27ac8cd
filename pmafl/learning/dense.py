"""Gradients of a dense network (Linear and ReLU in turn, cross-entropy on top), written out by hand.

Against autograd this saves what surrounds the matrix products: they go straight into the gradient vector, and
nothing is computed below the lowest trained layer. `Dense` does what `autograd.Autograd` does, which serves
all other networks and is the check for this one.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from pmafl.learning.inputs import Part, Samples
from pmafl.learning.model import Model, view_like


def is_dense(model: Model) -> bool:
    """Whether the model is a chain of Linear layers with bias and a ReLU after each but the last."""
    kinds = [type(member) for member in model.members if not _flattens(member)]
    layers = _linear_layers(model.members)
    chain: list[type[nn.Module]] = [nn.Linear, nn.ReLU] * len(layers)
    return model.layered and kinds == chain[:-1] and all(layer.bias is not None for layer in layers)


class _Layer(NamedTuple):
    weight: Tensor
    bias: Tensor
    weight_gradient: Tensor
    bias_gradient: Tensor


class Dense:
    """Adds gradients to `model.gradient`.

    In bf16 the products run on a rounded copy of the weights; weights and gradient stay float32.
    """

    def __init__(self, model: Model, precision: torch.dtype) -> None:
        self.model = model
        self._weights = model.flat.to(precision)  # the same vector in fp32
        vectors = (self._weights, model.gradient)
        self._layers = [
            _Layer(*(view_like(p, vector) for vector in vectors for p in (layer.weight, layer.bias)))
            for layer in _linear_layers(model.members)
        ]
        self._split = len(_linear_layers(list(model.extractor.modules())))
        self._trained = range(len(self._layers))

    @torch.no_grad()
    def begin(self, samples: Samples, part: Part) -> Samples:
        """Choose the layers to train; their gradient starts at zero.

        Layers below them are run now, once, and what they give is returned as the samples to train on.
        """
        self.model.gradient.zero_()
        split, end = self._split, len(self._layers)
        self._trained = {"all": range(end), "extractor": range(split), "predictor": range(split, end)}[part]
        x = samples.x.flatten(1).to(self._weights.dtype)
        if below := range(self._trained.start):
            self._weights.copy_(self.model.flat)
            x = torch.cat([self._forward(rows, below)[-1] for rows in torch.split(x, self.model.chunk)])
        return Samples(x, samples.y)

    @torch.no_grad()
    def differentiate(self, samples: Samples, keep: float = 1.0) -> Tensor:
        """Mean loss. Its gradient is added to `keep` times what is there, in the layers that are trained."""
        if self._weights is not self.model.flat:
            self._weights.copy_(self.model.flat)
        count, chunk = len(samples.y), self.model.chunk
        loss = torch.zeros((), device=samples.y.device)
        for x, y in zip(torch.split(samples.x, chunk), torch.split(samples.y, chunk), strict=True):
            *inputs, scores = self._forward(x, range(self._trained.start, len(self._layers)))
            # Softmax and cross-entropy spelt out: torch's own are slow on rows of few classes.
            scores = scores.float()
            scores -= scores.amax(1, keepdim=True)
            weights = scores.exp()
            total = weights.sum(1, keepdim=True)
            loss += (total.log() - scores.gather(1, y[:, None])).sum() / count
            delta = weights.div_(total).scatter_(1, y[:, None], -1.0, reduce="add").div_(count)
            self._backward(inputs, delta.to(x.dtype), keep)
            keep = 1.0
        return loss

    def _forward(self, x: Tensor, layers: range) -> list[Tensor]:
        """The input of each of the layers, and the output of the last."""
        values = [x]
        for number in layers:
            layer = self._layers[number]
            # Faster than addmm, which first fills the result with copies of the bias.
            values.append(torch.mm(values[-1], layer.weight.t()).add_(layer.bias))
            if number + 1 < len(self._layers):
                values[-1].relu_()
        return values

    def _backward(self, inputs: list[Tensor], delta: Tensor, keep: float) -> None:
        """From the derivative with respect to the scores, `delta`, down to the lowest trained layer."""
        start = self._trained.start
        for number in reversed(range(start, len(self._layers))):
            layer, x = self._layers[number], inputs[number - start]
            if number in self._trained:
                layer.bias_gradient.mul_(keep).add_(delta.sum(0, dtype=torch.float32))
                if x.dtype == torch.float32:
                    layer.weight_gradient.addmm_(delta.t(), x, beta=keep)
                else:
                    layer.weight_gradient.mul_(keep).add_(delta.t() @ x)
            if number > start:
                delta = torch.mm(delta, layer.weight).mul_(x.sign_())  # the ReLU's derivative


def _linear_layers(members: list[nn.Module]) -> list[nn.Linear]:
    return [member for member in members if isinstance(member, nn.Linear)]


def _flattens(member: nn.Module) -> bool:
    return isinstance(member, nn.Flatten) and (member.start_dim, member.end_dim) == (1, -1)
