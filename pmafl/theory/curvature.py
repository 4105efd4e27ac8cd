"""How fast gradients change: the smoothness constants of Assumption 1, estimated from below at one point.

`hessian_norms` are norms of the Hessian's blocks, by power iteration on Hessian-vector products; the Hessian
itself, half a million numbers a side, is never formed. `step_norms` are changes of the gradient over a step
of training. With ReLU they can be much larger: a step crosses kinks, of which the Hessian knows nothing.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import eigvalsh_tridiagonal
from torch import Tensor

TOLERANCE = 1e-4
MOST_PRODUCTS = 100
PATIENCE = 5  # products without progress before the norm is taken: fewer may be a plateau

Map = Callable[[Tensor], Tensor]


class Smoothness(NamedTuple):
    """How fast the gradient of a loss changes: `uv` is the extractor's gradient with the predictor."""

    u: float
    v: float
    uv: float
    vu: float


def hessian_norms(
    loss: Tensor, extractor: Sequence[Tensor], predictor: Sequence[Tensor], rng: np.random.Generator
) -> Smoothness:
    """Spectral norms of the blocks of a loss's Hessian, where its two groups of tensors are now.

    An empty group has norm 0. `rng` draws where the power iterations start.
    """
    gradients = torch.autograd.grad(loss, [*extractor, *predictor], create_graph=True)
    slopes = _flat(gradients[: len(extractor)]), _flat(gradients[len(extractor) :])
    split = len(slopes[0])

    def block(targets: Sequence[Tensor], slope: Tensor) -> Map:
        """x -> (second derivatives of the loss by `targets` and by whatever `slope` is the gradient of) x."""
        if not targets or not len(slope):
            return lambda vector: vector.new_zeros(sum(tensor.numel() for tensor in targets))
        return lambda vector: _flat(
            torch.autograd.grad(slope, targets, vector, retain_graph=True, materialize_grads=True)
        )

    u, uv = block(extractor, slopes[0]), block(extractor, slopes[1])
    vu, v = block(predictor, slopes[0]), block(predictor, slopes[1])

    def cross(vector: Tensor) -> Tensor:  # symmetric, with the norm of the block
        return torch.cat([uv(vector[split:]), vu(vector[:split])])

    def norm(apply: Map, size: int) -> float:
        return spectral_norm(apply, torch.from_numpy(rng.standard_normal(size)).to(loss))

    between = norm(cross, split + len(slopes[1]))
    return Smoothness(norm(u, split), norm(v, len(slopes[1])), between, between)


def spectral_norm(apply: Map, start: Tensor) -> float:
    """Largest absolute eigenvalue of a symmetric map.

    Lanczos: power iteration that makes use of all its steps. The norm on the space they span rises with
    every step, never passes the true one, and does not stall where two eigenvalues are close.
    """
    vector, previous, length = start / start.norm(), torch.zeros_like(start), 0.0
    diagonal: list[float] = []
    beside: list[float] = []
    norms = [-np.inf] * PATIENCE
    for _ in range(min(MOST_PRODUCTS, len(start))):
        image = apply(vector) - length * previous
        diagonal.append(float(vector @ image))
        norms.append(float(np.abs(eigvalsh_tridiagonal(diagonal, beside)).max()))
        image -= diagonal[-1] * vector
        length = float(image.norm())
        if norms[-1] <= norms[-1 - PATIENCE] * (1 + TOLERANCE) or length <= TOLERANCE * norms[-1]:
            break
        beside.append(length)
        previous, vector = vector, image / length
    return max(0.0, norms[-1])


def step_norms(gradient: Map, weights: Tensor, split: int, rates: tuple[float, float]) -> Smoothness:
    """Change of the gradient a unit of length, over one gradient step of the extractor, then the predictor.

    `gradient` is a function of flat weights, the first `split` of which are the extractor's; `rates` are the
    two learning rates.
    """
    before = gradient(weights)
    changes = []
    for part, rate in zip((slice(0, split), slice(split, None)), rates, strict=True):
        step = torch.zeros_like(before)
        step[part] = -rate * before[part]
        length = float(step.norm())
        change = (gradient(weights + step) - before) / length if length else step
        changes.append((float(change[:split].norm()), float(change[split:].norm())))
    (u, vu), (uv, v) = changes
    return Smoothness(u, v, uv, vu)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors]) if tensors else torch.zeros(0)
