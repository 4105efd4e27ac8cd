"""What an algorithm is: what the server holds, what a device holds, and a few functions on them.

Whatever must survive to the next round is a mapping from names to tensors, flat ones, one for the server and
one for each device. Checkpoints and the memory of real devices know nothing else about it. Nothing here, nor
in the algorithms beside it, imports torch, so that the wireless side can charge an algorithm without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pmafl.errors import InputError
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.engine import Engine
    from pmafl.learning.inputs import Part, Samples
    from pmafl.learning.model import Model

    Tensors = dict[str, Tensor]
    Train = Callable[[Engine, Tensor, Samples, np.random.Generator], Tensor]
    Local = Callable[[Engine, Tensors, Tensors, Samples, np.random.Generator], tuple[Tensors, Tensors]]

# Numbers of parameters by name, from the sizes of the extractor and of the whole model. A sequence has one
# entry per device, the size or 0: of what a device with 0 gives under that name, nothing is sent.
Sizes = Callable[[int, int], Mapping[str, "int | Sequence[int]"]]
Split = Literal["settings", "norms"]


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
            take the place of what has their name. One that has an argument `share` is also told the share of
            all devices that uploaded, weighted as their uploads are; one that has `trained` gets a mask over
            the model, false where it holds running statistics, which can be averaged but know no direction.
        common: how many leading weights of all personal models are the same, where that is known: features
            are then computed once for all devices, unless these tune their models.
        tune: what a device does with its personal model before that is tested, on its training samples; left
            out: nothing. It happens once, when training is over, so no round is charged for it.
        tuning_iterations: passes over its samples that tuning takes.
        split: what divides the model, the settings or, "norms", its normalisation layers, which then are its
            personal part.
    """

    start: Callable[[Model], tuple[Tensors, Tensors]]
    local: Local
    personal: Callable[[Tensors, Tensors], Tensor]
    iterations: int
    uploads: Sizes
    downloads: Sizes | None = None
    aggregate: Callable[..., Tensors] = _replace
    common: Callable[[int, int], int] = _nothing_in_common
    tune: Train | None = None
    tuning_iterations: int = 0
    split: Split = "settings"


Maker = Callable[..., Algorithm]


def together(learning: LearningSettings, proximal_weight: float = 0.0) -> Train:
    """Train extractor and predictor together, as most algorithms do."""

    def train(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        return engine.train(weights, samples, rng, learning.iterations, proximal_weight=proximal_weight)

    return train


def split_model(
    train: Train, iterations: int, shared: Literal["extractor", "head"] = "extractor"
) -> Algorithm:
    """Devices share the extractor u and keep their predictor v; algorithms differ in how both are trained.

    Where the head is `shared`, it is the other way round.
    """

    def start(model: Model) -> tuple[Tensors, Tensors]:
        return divide(model.flat, model.split)

    def local(
        engine: Engine, server: Tensors, device: Tensors, samples: Samples, rng: np.random.Generator
    ) -> tuple[Tensors, Tensors]:
        return divide(train(engine, personal(server, device), samples, rng), engine.model.split)

    def divide(weights: Tensor, split: int) -> tuple[Tensors, Tensors]:
        """What is shared and what is kept; what has no parameters has no name either."""
        extractor = {"extractor": weights[:split].clone()} if split else {}
        head = {"head": weights[split:].clone()} if split < len(weights) else {}
        return (extractor, head) if shared == "extractor" else (head, extractor)

    def personal(server: Tensors, device: Tensors) -> Tensor:
        from torch import cat

        parts = (server, device) if shared == "extractor" else (device, server)
        return cat([values for part in parts for values in part.values()])

    def uploads(split: int, parameters: int) -> dict[str, int]:
        size = split if shared == "extractor" else parameters - split
        return {shared: size} if size else {}

    def common(split: int, parameters: int) -> int:
        if shared == "extractor":
            return split
        return 0 if split else parameters

    return Algorithm(start, local, personal, iterations, uploads, common=common)


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


def tuned(
    algorithm: Algorithm,
    learning: LearningSettings,
    part: Literal["all", "head", "extractor"],
    passes: int | None,
) -> Algorithm:
    """The algorithm with personal models that are trained on before their test.

    By default as long as in a round; 0 passes change nothing.
    """
    passes = learning.iterations if passes is None else at_least(0, "tuning_iterations", passes)
    trained: Part = "predictor" if part == "head" else part

    def tune(engine: Engine, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        return engine.train(weights, samples, rng, passes, trained)

    return replace(algorithm, tune=tune, tuning_iterations=passes) if passes else algorithm


def moved(before: Tensor, target: Tensor, rate: float) -> Tensor:
    """From one vector so far towards another: 0 stays, 1 arrives, to the bit."""
    return target if rate == 1 else before + rate * (target - before)


Number = TypeVar("Number", int, float)


def at_least(least: float, option: str, value: Number, most: float = inf) -> Number:
    """The value of an option, which must be finite and within its range."""
    if not least <= value <= most or value == inf:
        allowed = f"{least:g} to {most:g}" if most < inf else f"{least:g} or more"
        raise InputError(f"learning.options.{option} = {value}: must be {allowed}")
    return value
