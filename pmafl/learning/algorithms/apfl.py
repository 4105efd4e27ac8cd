"""Each device mixes the shared model with one of its own, which it trains as a part of the mixture.

Deng, Kamani, Mahdavi: Adaptive personalized federated learning. arXiv 2003.13461, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pmafl.learning.algorithms.base import Algorithm, at_least
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples
    from pmafl.learning.model import Model


def apfl(learning: LearningSettings, mixing: float = 0.5, mixing_rate: float = 0.0) -> Algorithm:
    r"""The personal model is :math:`\alpha v + (1 - \alpha) w`, with :math:`\alpha` the `mixing`.

    .. math:: w \leftarrow w - \eta \nabla F_k(w), \quad
              v \leftarrow v - \eta \alpha \nabla F_k(\alpha v + (1 - \alpha) w)

    in every step, on the same batch; w is uploaded. In the first step of a round a device also moves its
    :math:`\alpha` down its slope :math:`\nabla F_k \cdot (v - w)`, by `mixing_rate`: 0 leaves it as it is. A
    mixing of 0 gives FedAvg, of 1 local training.
    """
    at_least(0, "mixing", mixing, most=1)
    at_least(0, "mixing_rate", mixing_rate)

    def start(model: Model) -> tuple[Tensors, Tensors]:
        held = {"own": model.flat.clone(), "mixing": model.flat.new_full((1,), mixing)}
        return {"model": model.flat.clone()}, held

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        share = float(device["mixing"])
        first = True

        def slopes(points: Sequence[Tensor], batch: Samples) -> tuple[float, list[Tensor]]:
            nonlocal share, first
            shared, own = points
            loss, of_shared = engine.slope(shared, batch)
            _, of_mixture = engine.slope(share * own + (1 - share) * shared, batch)
            of_own = share * of_mixture
            if first:
                slope = sum(float(of_mixture[w] @ (own - shared)[w]) for w in engine.model.trained)
                share = min(max(share - mixing_rate * slope, 0.0), 1.0)
                first = False
            return loss, [of_shared, of_own]

        points = [server["model"], device["own"]]
        model, own = engine.descend(points, samples, rng, learning.iterations, slopes)
        return {"model": model}, {"own": own, "mixing": device["mixing"].new_full((1,), share)}

    def personal(server: Tensors, device: Tensors) -> Tensor:
        share = device["mixing"]
        return share * device["own"] + (1 - share) * server["model"]

    return Algorithm(
        start,
        local,
        personal,
        2 * learning.iterations,
        uploads=lambda split, parameters: {"model": parameters},
    )
