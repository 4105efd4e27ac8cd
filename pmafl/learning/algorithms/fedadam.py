"""FedAvg whose server takes the mean change of the devices for a gradient, and steps by Adam.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive federated optimization. ICLR 2021.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pmafl.errors import InputError
from pmafl.learning.algorithms.base import Algorithm, at_least
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    from torch import Tensor

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.model import Model


def fedadam(
    learning: LearningSettings,
    rate: float = 0.01,
    momentum: float = 0.9,
    second_momentum: float = 0.99,
    adaptivity: float = 1e-3,
) -> Algorithm:
    r"""The server's step for a mean change of :math:`\Delta` (the paper's Algorithm 2).

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) \Delta, \quad
              v \leftarrow \beta_2 v + (1 - \beta_2) \Delta^2, \quad
              w \leftarrow w + \eta \frac{m}{\sqrt{v} + \tau}

    with :math:`\eta` the `rate`, :math:`\beta_1` the `momentum`, :math:`\beta_2` the `second_momentum` and
    :math:`\tau` the `adaptivity`, whose square v starts from. A second momentum of 1 leaves v there: with no
    momentum and a rate of twice the adaptivity it is FedAvg.
    """
    at_least(0, "rate", rate)
    at_least(0, "momentum", momentum, most=1)
    at_least(0, "second_momentum", second_momentum, most=1)
    if at_least(0, "adaptivity", adaptivity) == 0:
        raise InputError(f"learning.options.adaptivity = {adaptivity}: must be more than 0")

    def start(model: Model) -> tuple[Tensors, Tensors]:
        mean, square = (model.flat.new_full((model.parameters,), value) for value in (0.0, adaptivity**2))
        return {"model": model.flat.clone(), "mean": mean, "square": square}, {}

    def aggregate(server: Tensors, combined: Tensors, trained: Tensor) -> Tensors:
        model = server["model"].double()
        change = combined["model"] - model
        mean = momentum * server["mean"].double() + (1 - momentum) * change
        square = second_momentum * server["square"].double() + (1 - second_momentum) * change.square()
        model = (model + rate * mean / (square.sqrt() + adaptivity)).float()
        after = model.where(trained, combined["model"])
        return {"model": after, "mean": mean.float(), "square": square.float()}

    return replace(fedavg(learning), start=start, aggregate=aggregate)
