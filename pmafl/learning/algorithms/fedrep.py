"""Shared representation, personal head, trained one after the other.

Collins, Hassani, Mokhtari, Shakkottai: Exploiting shared representations for personalized federated learning.
ICML 2021. It trains the head first; the paper of `pma` describes it with the extractor first.
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
    from pmafl.learning.inputs import Part, Samples


def fedrep(
    learning: LearningSettings,
    work: Literal["double", "equal"] = "double",
    order: Literal["head-first", "extractor-first"] = "head-first",
) -> Algorithm:
    """Head and extractor in this order: all iterations for each ("double" work), or divided ("equal").

    Of an odd number the head gets the larger half. What is trained second sees the first as it is by then.
    """
    double = work == "double"
    if not double and learning.iterations < 2:
        raise InputError("learning.options.work = 'equal' divides learning.iterations, which must be >= 2")
    head = learning.iterations if double else (learning.iterations + 1) // 2
    extractor = learning.iterations if double else learning.iterations - head
    iterations = {"predictor": head, "extractor": extractor}
    phases: list[Part] = ["predictor", "extractor"]
    if order == "extractor-first":
        phases.reverse()

    def train(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        for part in phases:
            weights = engine.train(weights, samples, rng, iterations[part], part)
        return weights

    return split_model(train, head + extractor)
