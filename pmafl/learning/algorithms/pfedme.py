"""A shared model that is the best centre for personal ones, each held near it by a Moreau envelope.

Dinh, Tran, Nguyen: Personalized federated learning with Moreau envelopes. NeurIPS 2020.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmafl.learning.algorithms.base import Algorithm, at_least, moved
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples
    from pmafl.learning.model import Model


def pfedme(
    learning: LearningSettings,
    weight: float = 15.0,
    steps: int = 5,
    rate: float = 0.05,
    server_rate: float = 1.0,
) -> Algorithm:
    r"""For every batch a device moves its personal model, and then the shared one towards it.

    .. math:: \theta \approx \arg\min F_k(\theta) + \lambda/2 \, |\theta - w|^2, \quad
              w \leftarrow w - \eta \lambda (w - \theta)

    by so many `steps` of gradient descent, with :math:`\lambda` the `weight` and :math:`\eta` the `rate`. The
    server goes `server_rate` of the way to the mean of the w (the paper's beta). One step, rate times weight
    of 1 and no momentum give FedAvg as the shared model. The paper's rate of 0.005 is for 20 batches per
    round.
    """
    at_least(0, "weight", weight)
    at_least(1, "steps", steps)
    at_least(0, "rate", rate)
    at_least(0, "server_rate", server_rate)

    def start(model: Model) -> tuple[Tensors, Tensors]:
        return {"model": model.flat.clone()}, {"own": model.flat.clone()}

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        model = own = server["model"]
        for batch in engine.batches(samples, rng, learning.iterations):
            own = engine.train(own, batch, rng, steps, proximal_weight=weight, centre=model)
            model = moved(model, own, rate * weight)
        return {"model": model}, {"own": own}

    return Algorithm(
        start,
        local,
        lambda server, device: device["own"],
        steps * learning.iterations,
        uploads=lambda split, parameters: {"model": parameters},
        aggregate=lambda server, combined: {"model": moved(server["model"], combined["model"], server_rate)},
    )
