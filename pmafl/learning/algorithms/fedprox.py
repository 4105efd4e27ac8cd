"""Federated averaging with a proximal term, the paper's "Regularized FL".

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated optimization in heterogeneous networks. MLSys 2020.
"""

from pmafl.learning.algorithms.base import Algorithm, at_least, together, whole_model
from pmafl.settings import LearningSettings


def fedprox(learning: LearningSettings, proximal_weight: float = 0.1) -> Algorithm:
    r"""Devices minimise :math:`F_k(w) + \rho/2 \, |w - w_t|^2`; a proximal weight of 0 gives FedAvg."""
    at_least(0, "proximal_weight", proximal_weight)
    return whole_model(together(learning, proximal_weight), learning.iterations)
