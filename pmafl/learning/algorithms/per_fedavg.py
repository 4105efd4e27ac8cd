"""A shared model from which one step on a device's samples leads far, by its first-order gradient.

Fallah, Mokhtari, Ozdaglar: Personalized federated learning with theoretical guarantees: a model-agnostic
meta-learning approach. NeurIPS 2020 (Per-FedAvg (FO)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pmafl.learning.algorithms.base import Algorithm, at_least
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples


def per_fedavg(learning: LearningSettings, rate: float = 0.05) -> Algorithm:
    r"""Devices step along :math:`\nabla F_k(w - \alpha \nabla F_k(w))`, with :math:`\alpha` the `rate`.

    The two gradients are of different batches, of two passes over the samples, so an iteration costs two. The
    one step by :math:`\alpha` is made again before a test, on all samples. A rate of 0 gives FedAvg.
    """
    shared = fedavg(learning)
    if not at_least(0, "rate", rate):
        return shared

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        others = engine.batches(samples, rng, learning.iterations)

        def slopes(points: Sequence[Tensor], batch: Samples) -> tuple[float, list[Tensor]]:
            (model,) = points
            loss, gradient = engine.gradient(model, batch)
            return loss, [engine.slope(model - rate * gradient, next(others))[1]]

        (model,) = engine.descend([server["model"]], samples, rng, learning.iterations, slopes)
        return {"model": model}, device

    def tune(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        with engine.randomness(rng):
            return weights - rate * engine.gradient(weights, samples)[1]

    iterations = 2 * learning.iterations
    return replace(shared, local=local, iterations=iterations, tune=tune, tuning_iterations=1)
