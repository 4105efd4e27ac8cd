"""A shared model by FedAvg, and beside it on each device a personal one that is drawn towards it.

Li, Hu, Beirami, Smith: Ditto: fair and robust federated learning through personalization. ICML 2021.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from pmafl.learning.algorithms.base import Algorithm, at_least
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples
    from pmafl.learning.model import Model


def ditto(
    learning: LearningSettings, weight: float = 0.1, personal_iterations: int | None = None
) -> Algorithm:
    r"""Devices also minimise :math:`F_k(v) + \lambda/2 \, |v - w_t|^2`, with :math:`\lambda` the `weight`.

    It takes `personal_iterations`, by default as many as the shared model, and both see the same batches. A
    weight of 0 gives local training, beside FedAvg.
    """
    at_least(0, "weight", weight)
    own = learning.iterations
    if personal_iterations is not None:
        own = at_least(1, "personal_iterations", personal_iterations)
    shared = fedavg(learning)

    def start(model: Model) -> tuple[Tensors, Tensors]:
        return {"model": model.flat.clone()}, {"own": model.flat.clone()}

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        same = deepcopy(rng)
        upload, _ = shared.local(engine, server, {}, samples, rng)
        centre = server["model"]
        trained = engine.train(device["own"], samples, same, own, proximal_weight=weight, centre=centre)
        return upload, {"own": trained}

    return Algorithm(
        start, local, lambda server, device: device["own"], learning.iterations + own, shared.uploads
    )
