"""FedAvg whose server keeps some of its last step: server momentum.

Hsu, Qi, Brown: Measuring the effects of non-identical data distribution for federated visual classification.
arXiv 1909.06335, 2019.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pmafl.learning.algorithms.base import Algorithm, at_least
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    from torch import Tensor

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.model import Model


def fedavgm(learning: LearningSettings, momentum: float = 0.9, rate: float = 1.0) -> Algorithm:
    r"""The server's step is :math:`v \leftarrow \beta v + \Delta, \; w \leftarrow w + \eta v`.

    With :math:`\Delta` what the mean of the uploads differs by from w, :math:`\beta` the `momentum` and
    :math:`\eta` the `rate`. A momentum of 0 and a rate of 1 give FedAvg.
    """
    at_least(0, "momentum", momentum, most=1)
    at_least(0, "rate", rate)

    def start(model: Model) -> tuple[Tensors, Tensors]:
        return {"model": model.flat.clone(), "velocity": model.flat.new_zeros(model.parameters)}, {}

    def aggregate(server: Tensors, combined: Tensors, trained: Tensor) -> Tensors:
        model = server["model"].double()  # in which the difference of two float32 is exact
        velocity = momentum * server["velocity"] + (combined["model"] - model)
        after = (model + rate * velocity).float().where(trained, combined["model"])
        return {"model": after, "velocity": velocity.float()}

    return replace(fedavg(learning), start=start, aggregate=aggregate)
