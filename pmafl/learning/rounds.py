"""One communication round: what a device does, what the server does, and the state between rounds.

The two sides share no memory, so that the same functions serve the simulator and a real deployment: a device
turns the extractor it received and its own head into a payload and a new head; the server averages payloads
by their number of samples (equation 6).
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pmafl.learning.algorithms import Algorithm
from pmafl.learning.engine import Engine, Samples
from pmafl.learning.quantise import Payload, decode, encode


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

    def to_tensors(self) -> dict[str, Tensor]:
        """The state as a few named tensors, for a checkpoint."""
        devices = sorted(self.heads)
        heads = [self.heads[k] for k in devices]
        return {
            "extractor": self.extractor.cpu(),
            "initial_head": self.initial_head.cpu(),
            "head_devices": torch.tensor(devices, dtype=torch.int64),
            "heads": torch.stack(heads).cpu() if heads else torch.zeros(0, len(self.initial_head)),
        }


def state_from_tensors(tensors: dict[str, Tensor], device: torch.device | str = "cpu") -> LearningState:
    """The state that `LearningState.to_tensors` described, exactly."""
    pairs = zip(tensors["head_devices"].tolist(), tensors["heads"], strict=True)
    heads = {k: head.clone().to(device) for k, head in pairs}
    return LearningState(tensors["extractor"].to(device), tensors["initial_head"].to(device), heads)


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
    weights = algorithm.local_update(engine, torch.cat([extractor, head]), samples, rng)
    shared = len(extractor)
    return encode(weights[:shared], bits_per_parameter), weights[shared:].clone()


class Aggregate:
    """The server's side: a running mean of payloads, weighted by samples.

    It sums in float64 and in the order of arrival: memory does not grow with the number of devices, and the
    same order gives the same bits.
    """

    def __init__(self, extractor: Tensor) -> None:
        self._before = extractor
        self._sum = torch.zeros_like(extractor, dtype=torch.float64)
        self._samples = 0

    def add(self, payload: Payload, samples: int) -> None:
        self._sum.add_(decode(payload).to(self._sum.device), alpha=samples)
        self._samples += samples

    def result(self) -> Tensor:
        """The new extractor; the old one if nobody took part."""
        return (self._sum / self._samples).float() if self._samples else self._before
