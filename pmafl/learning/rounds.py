"""One communication round: what a device does, what the server does, and the state between rounds.

The two sides share no memory, so that the same functions serve the simulator and a real deployment: a device
turns the extractor it received and its own head into a payload and a new head; the server combines payloads
(`aggregation.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmafl.brief import brief
from pmafl.errors import InputError
from pmafl.learning.algorithms import Algorithm
from pmafl.learning.engine import Engine
from pmafl.learning.inputs import Samples
from pmafl.learning.quantise import Payload, encode

Array = NDArray[np.float32]


@brief
@dataclass(frozen=True)
class LearningState:
    """What the next round needs.

    extractor: the shared parameters u; empty if nothing is shared.
    heads: the personal parameters v of every device that has trained; empty if all is shared.
    initial_head: the personal parameters of all other devices.
    """

    extractor: Tensor
    initial_head: Tensor
    heads: dict[int, Tensor] = field(default_factory=dict)

    def head(self, device: int) -> Tensor:
        return self.heads.get(device, self.initial_head)

    def restored(self, extractor: Array, heads: Mapping[int, Array]) -> "LearningState":
        """This state with the extractor and heads of another, from a checkpoint's arrays."""
        device = self.extractor.device
        tensors = {k: torch.from_numpy(head).to(device) for k, head in heads.items()}
        return LearningState(torch.from_numpy(extractor).to(device), self.initial_head, tensors)


def train_device(
    algorithm: Algorithm,
    engine: Engine,
    extractor: Tensor,
    head: Tensor,
    samples: Samples,
    rng: np.random.Generator,
    bits_per_parameter: int,
) -> tuple[Payload, Tensor]:
    """The device's side of a round: its upload and its new head."""
    weights = torch.cat([extractor, head])
    weights = _checked(algorithm.local_update(engine, weights, samples, rng), weights)
    shared = len(extractor)
    return encode(weights[:shared], bits_per_parameter), weights[shared:].clone()


def _checked(weights: object, before: Tensor) -> Tensor:
    needed = f"it must be {len(before)} weights, as it was given"
    if not isinstance(weights, Tensor):
        raise InputError(f"local_update returned a {type(weights).__name__}; {needed}")
    if weights.shape != before.shape or weights.dtype != before.dtype or weights.device != before.device:
        kind = f"{weights.dtype} of shape {tuple(weights.shape)} on {weights.device}"
        raise InputError(
            f"local_update returned a tensor of {kind}; {needed}: {before.dtype} on {before.device}"
        )
    return weights.detach()
