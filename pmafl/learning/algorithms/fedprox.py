"""Federated averaging with a proximal term, the paper's "Regularized FL".

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated optimization in heterogeneous networks. MLSys 2020.
"""

from pmafl.learning.algorithms.base import Algorithm, joint_training
from pmafl.settings import LearningSettings


def fedprox(learning: LearningSettings) -> Algorithm:
    r"""Devices minimise :math:`F_k(w) + \rho/2 \, |w - w_t|^2`; a proximal weight of 0 gives FedAvg."""
    return Algorithm("all", learning.iterations, joint_training(learning, learning.proximal_weight))
