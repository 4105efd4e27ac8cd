"""A regulariser that changes with what a device has done, so that devices agree where they stop.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama: Federated learning based on dynamic regularization.
ICLR 2021.
"""

from __future__ import annotations

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
    from pmafl.learning.model import Model


def feddyn(learning: LearningSettings, weight: float = 0.1) -> Algorithm:
    r"""Devices minimise :math:`F_k(w) - g_k \cdot w + \alpha/2 \, |w - w_t|^2`.

    .. math:: g_k \leftarrow g_k - \alpha (w_k - w_t), \quad h \leftarrow h - \alpha \frac{1}{K}
              \sum_{k \in S} (w_k - w_t), \quad w_{t+1} = \operatorname{mean}_{k \in S} w_k - h / \alpha

    with :math:`\alpha` the `weight`, S those of the K devices that uploaded, :math:`g_k` what a device holds
    and h what the server does; neither travels. A weight of 0 gives FedAvg, a small one does not: how far
    the server goes beyond the mean does not depend on it.
    """
    if not at_least(0, "weight", weight):
        return fedavg(learning)

    def start(model: Model) -> tuple[Tensors, Tensors]:
        nothing = model.flat.new_zeros(model.parameters)
        return {"model": model.flat.clone(), "drift": nothing}, {"gradient": nothing}

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        before, gradient = server["model"], device["gradient"]
        model = engine.train(
            before, samples, rng, learning.iterations, proximal_weight=weight, correction=-gradient
        )
        return {"model": model}, {"gradient": gradient - weight * (model - before)}

    def aggregate(server: Tensors, combined: Tensors, share: float, trained: Tensor) -> Tensors:
        mean = combined["model"]
        drift = server["drift"] - weight * share * (mean - server["model"])
        return {"model": (mean - drift / weight).where(trained, mean), "drift": drift}

    return Algorithm(
        start,
        local,
        lambda server, device: server["model"],
        learning.iterations,
        uploads=lambda split, parameters: {"model": parameters},
        aggregate=aggregate,
        common=lambda split, parameters: parameters,
    )
