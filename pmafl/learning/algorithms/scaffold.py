"""Steps that are corrected by how a device's gradients differ from those of all devices.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: stochastic controlled averaging for federated
learning. ICML 2020.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmafl.learning.algorithms.base import Algorithm, at_least, moved
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples
    from pmafl.learning.model import Model


def scaffold(learning: LearningSettings, control_weight: float = 1.0, server_rate: float = 1.0) -> Algorithm:
    r"""Devices step along :math:`\nabla F_k(w) + \gamma (c - c_k)`, with :math:`\gamma` the `control_weight`.

    The control :math:`c_k` is the mean gradient of a device's last round (the paper's option II), c the mean
    of all devices' controls. The model and the change of control are uploaded, the model and c downloaded.
    With momentum early gradients count for more in that mean. The server goes `server_rate` of the way to the
    mean of the models. A control weight of 0 and a server rate of 1 give FedAvg, at twice its bits.
    """
    at_least(0, "control_weight", control_weight)
    at_least(0, "server_rate", server_rate)

    def start(model: Model) -> tuple[Tensors, Tensors]:
        nothing = model.flat.new_zeros(model.parameters)
        return {"model": model.flat.clone(), "control": nothing}, {"control": nothing}

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        before = server["model"]
        correction = control_weight * (server["control"] - device["control"])
        wanted = correction if control_weight else None
        model = engine.train(before, samples, rng, learning.iterations, correction=wanted)
        control = engine.mean_gradient(before, model, samples, learning.iterations) - correction
        return {"model": model, "change": control - device["control"]}, {"control": control}

    def aggregate(server: Tensors, combined: Tensors, share: float, trained: Tensor) -> Tensors:
        model = moved(server["model"], combined["model"], server_rate)
        return {
            "model": model.where(trained, combined["model"]),
            "control": server["control"] + share * combined["change"],
        }

    return Algorithm(
        start,
        local,
        lambda server, device: server["model"],
        learning.iterations,
        # Named apart: of what has one name both ways, uploads encode the difference to what was received.
        uploads=lambda split, parameters: {"model": parameters, "change": parameters},
        downloads=lambda split, parameters: {"model": parameters, "control": parameters},
        aggregate=aggregate,
        common=lambda split, parameters: parameters,
    )
