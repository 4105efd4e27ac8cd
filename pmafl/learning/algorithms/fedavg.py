"""Federated averaging: every device uploads the whole model.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-efficient learning of deep networks from
decentralized data. AISTATS 2017.
"""

from pmafl.learning.algorithms.base import Algorithm, together, whole_model
from pmafl.settings import LearningSettings


def fedavg(learning: LearningSettings) -> Algorithm:
    """One global model; the split matters only for the two learning rates."""
    return whole_model(together(learning), learning.iterations)
