"""A random part of the changes; the seed of the draw tells the server which.

S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with memory", NeurIPS 2018. With error feedback, the
default, it is biased in one upload and catches up later. Without, values are scaled by what is left out: then
it is unbiased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pmafl.learning.uploads.base import Upload, check_share, chosen, compressed
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.uploads.base import Message

SEED_BITS = 64


def random_k(
    learning: LearningSettings, share: float = 0.05, value_bits: Literal[16, 32] = 32, feedback: bool = True
) -> Upload:
    """A `share` of all values, of `value_bits` each, and a seed of 64 bits; 1 is no compression."""
    check_share(share)

    def compress(vector: Tensor, rng: np.random.Generator) -> Message:
        import torch

        seed = int(rng.integers(2**62))
        values = vector[_places(seed, len(vector)).to(vector.device)]
        if not feedback:
            values = values * (len(vector) / chosen(len(vector), share))
        return torch.tensor([seed]), values.to(torch.float16 if value_bits == 16 else torch.float32)

    def decode(message: Message, size: int) -> Tensor:
        import torch

        seed, values = message
        places = _places(abs(int(seed)), size).to(values.device)
        return torch.zeros(size, device=values.device).index_copy_(0, places, values.float())

    def _places(seed: int, size: int) -> Tensor:
        import numpy as np
        import torch

        drawn = np.random.default_rng(seed).choice(size, chosen(size, share), replace=False)
        return torch.from_numpy(np.sort(drawn))

    def size_bits(size: int) -> int:
        return SEED_BITS + chosen(size, share) * value_bits

    return compressed(compress, decode, size_bits, feedback)
