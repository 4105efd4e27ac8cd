"""Everything is shared but the normalisation layers, whose weights and statistics are the device's own.

Li, Jiang, Zhang, Kamp, Dou: FedBN: federated learning on non-IID features via local batch normalization. ICLR
2021.
"""

from dataclasses import replace

from pmafl.learning.algorithms.base import Algorithm, split_model, together
from pmafl.settings import LearningSettings


def fedbn(learning: LearningSettings) -> Algorithm:
    """Normalisation layers of any kind are kept; the settings' own split of the model does not matter.

    Where a network has none, it is FedAvg. What is kept is trained at the predictor's rate.
    """
    return replace(split_model(together(learning), learning.iterations), split="norms")
