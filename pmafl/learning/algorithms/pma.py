"""Partial model aggregation, the paper's method (equations 4 to 6).

Devices train the whole model, upload the feature extractor u and keep their predictor v.
"""

from pmafl.learning.algorithms.base import Algorithm, split_model, together
from pmafl.settings import LearningSettings


def pma(learning: LearningSettings) -> Algorithm:
    """Sharing all layers gives FedAvg, sharing none gives local training."""
    return split_model(together(learning), learning.iterations)
