"""Shared representation, personal head, trained one after the other.

Collins, Hassani, Mokhtari, Shakkottai: Exploiting shared representations for personalized federated learning.
ICML 2021.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pmafl.errors import InputError
from pmafl.learning.algorithms.base import Algorithm, split_model
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples


def fedrep(learning: LearningSettings, work: Literal["double", "equal"] = "double") -> Algorithm:
    """First the head, then the extractor: all iterations for each ("double" work), or divided ("equal").

    Of an odd number the head gets the larger half.
    """
    double = work == "double"
    if not double and learning.iterations < 2:
        raise InputError("learning.options.work = 'equal' divides learning.iterations, which must be >= 2")
    head = learning.iterations if double else (learning.iterations + 1) // 2
    extractor = learning.iterations if double else learning.iterations - head

    def train(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        weights = engine.train(weights, samples, rng, head, part="predictor")
        return engine.train(weights, samples, rng, extractor, part="extractor")

    return split_model(train, head + extractor)
