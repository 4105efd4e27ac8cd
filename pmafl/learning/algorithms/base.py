"""What an algorithm is: what the server holds, what a device holds, and a few functions on them.

Whatever must survive to the next round is a mapping from names to tensors, flat ones, one for the server and
one for each device. Checkpoints and the memory of real devices know nothing else about it. Nothing here, nor
in the algorithms beside it, imports torch, so that the wireless side can charge an algorithm without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Samples
    from pmafl.learning.model import Model

    Tensors = dict[str, Tensor]
    Train = Callable[[Engine, Tensor, Samples, np.random.Generator], Tensor]
    Local = Callable[[Engine, Tensors, Tensors, Samples, np.random.Generator], tuple[Tensors, Tensors]]

# Numbers of parameters by name, from the sizes of the extractor and of the whole model. A sequence has one
# entry per device, the size or 0: of what a device with 0 gives under that name, nothing is sent.
Sizes = Callable[[int, int], Mapping[str, "int | Sequence[int]"]]


def _replace(server: Any, combined: Any) -> Any:
    return {**server, **combined}


def _nothing_in_common(split: int, parameters: int) -> int:
    return 0


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm, as the round loop sees it.

    Attributes:
        start: from the model with its initial weights to what the server holds, and what every device does.
        local: a device's part of a round: trains from what it received of the server and what it holds, and
            gives its upload and what it holds now. It changes no tensor that it was given.
        personal: a device's whole model as one vector, the model that is tested and exported.
        iterations: passes over its samples that a device is charged for in a round.
        uploads: what a device sends, by name; the bits that are charged follow from it.
        downloads: what a device receives of the server's state, by name; left out: what it uploads.
        aggregate: from the server's state and the combined uploads to its next state; left out: the uploads
            take the place of what has their name.
        common: how many leading weights of all personal models are the same, where that is known: features
            are then computed once for all devices.
    """

    start: Callable[[Model], tuple[Tensors, Tensors]]
    local: Local
    personal: Callable[[Tensors, Tensors], Tensor]
    iterations: int
    uploads: Sizes
    downloads: Sizes | None = None
    aggregate: Callable[[Tensors, Tensors], Tensors] = _replace
    common: Callable[[int, int], int] = _nothing_in_common


Maker = Callable[..., Algorithm]


def together(learning: LearningSettings, proximal_weight: float = 0.0) -> Train:
    """Train extractor and predictor together, as most algorithms do."""

    def train(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        return engine.train(weights, samples, rng, learning.iterations, proximal_weight=proximal_weight)

    return train


def split_model(train: Train, iterations: int) -> Algorithm:
    """Devices share the extractor u and keep their predictor v; algorithms differ in how both are trained."""

    def start(model: Model) -> tuple[Tensors, Tensors]:
        return divide(model.flat, model.split)

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        return divide(train(engine, personal(server, device), samples, rng), engine.model.split)

    def divide(weights: Tensor, split: int) -> tuple[Tensors, Tensors]:
        """Extractor and head; what has no parameters has no name either."""
        extractor = {"extractor": weights[:split].clone()} if split else {}
        return extractor, {"head": weights[split:].clone()} if split < len(weights) else {}

    def personal(server: Tensors, device: Tensors) -> Tensor:
        from torch import cat

        return cat([*server.values(), *device.values()])

    return Algorithm(
        start,
        local,
        personal,
        iterations,
        uploads=lambda split, parameters: {"extractor": split} if split else {},
        common=lambda split, parameters: split,
    )


def whole_model(train: Train, iterations: int) -> Algorithm:
    """One model for all, which every device uploads whole."""

    def start(model: Model) -> tuple[Tensors, Tensors]:
        return {"model": model.flat.clone()}, {}

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        return {"model": train(engine, server["model"], samples, rng)}, device

    return Algorithm(
        start,
        local,
        lambda server, device: server["model"],
        iterations,
        uploads=lambda split, parameters: {"model": parameters},
        common=lambda split, parameters: parameters,
    )
