"""The body is trained with a head that nobody trains; each device tunes its model before it is tested.

Oh, Kim, Yun: FedBABU: toward enhanced representation for federated image classification. ICLR 2022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pmafl.learning.algorithms.base import Algorithm, split_model, tuned
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples


def fedbabu(
    learning: LearningSettings,
    tune: Literal["all", "head", "extractor"] = "all",
    tuning_iterations: int | None = None,
) -> Algorithm:
    """All heads stay as they began, the same for all; only extractors are trained, and uploaded.

    `tune` is the part that is trained before a test, `tuning_iterations` how long: by default as long as in a
    round, 0 tests the model with the head that nobody trained.
    """

    def train(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        return engine.train(weights, samples, rng, learning.iterations, part="extractor")

    return tuned(split_model(train, learning.iterations), learning, tune, tuning_iterations)
