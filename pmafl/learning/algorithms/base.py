"""What an algorithm is. Nothing here, nor in the algorithms beside it, imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples

    LocalUpdate = Callable[[Engine, Tensor, Samples, np.random.Generator], Tensor]

Shares = Literal["split", "all", "none"]


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm, as the round loop sees it.

    shares: the part of the model that is uploaded and aggregated: its extractor ("split"), all or none.
    charged_iterations: passes over the samples that a device spends energy on in a round.
    local_update: a device's training, from the weights it starts with to those it ends with.
    """

    shares: Shares
    charged_iterations: int
    local_update: LocalUpdate

    def shared(self, split: int, parameters: int) -> int:
        """How many leading parameters are shared, of `parameters` with the first `split` in the extractor."""
        return {"split": split, "all": parameters, "none": 0}[self.shares]


Constructor = Callable[[LearningSettings], Algorithm]


def joint_training(learning: LearningSettings, proximal_weight: float = 0.0) -> LocalUpdate:
    """Train extractor and predictor together, as most algorithms do."""

    def local_update(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        return engine.train(weights, samples, rng, learning.iterations, proximal_weight=proximal_weight)

    return local_update
