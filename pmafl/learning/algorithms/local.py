"""No federation: every scheduled device trains its own model and uploads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmafl.learning.algorithms.base import Algorithm, together
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np

    from pmafl.learning.algorithms.base import Tensors
    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples
    from pmafl.learning.model import Model


def local(learning: LearningSettings) -> Algorithm:
    """The benchmark that any sharing has to beat."""
    train = together(learning)

    def start(model: Model) -> tuple[Tensors, Tensors]:
        return {}, {"model": model.flat.clone()}

    def alone(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        return {}, {"model": train(engine, device["model"], samples, rng)}

    return Algorithm(
        start,
        alone,
        lambda server, device: device["model"],
        learning.iterations,
        uploads=lambda split, parameters: {},
    )
