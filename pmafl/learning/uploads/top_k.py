"""The largest changes alone, with their places.

A. F. Aji, K. Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017; S. U. Stich,
J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with memory", NeurIPS 2018. It is biased: small changes are not
sent. With error feedback, the default, they wait until they have grown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pmafl.learning.uploads.base import (
    BadMessage,
    Upload,
    check_share,
    chosen,
    compressed,
    pack,
    packed_bytes,
    unpack,
)
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.uploads.base import Message


def top_k(
    learning: LearningSettings, share: float = 0.05, value_bits: Literal[16, 32] = 32, feedback: bool = True
) -> Upload:
    """A `share` of all values, of `value_bits` each, and as many bits for each place as are needed.

    A share of 1 sends everything and no places: no compression.
    """
    check_share(share)

    def compress(vector: Tensor, rng: np.random.Generator) -> Message:
        import torch

        count = chosen(len(vector), share)
        kind = torch.float16 if value_bits == 16 else torch.float32
        if count == len(vector):
            return (vector.to(kind),)
        places = torch.topk(vector.abs(), count, sorted=False).indices.sort().values
        return pack(places, _width(len(vector))), vector[places].to(kind)

    def decode(message: Message, size: int) -> Tensor:
        import torch

        count, values = chosen(size, share), message[-1].float()
        if count == size:
            return values
        places = unpack(message[0], count, _width(size))
        if int(places[-1]) >= size or (count > 1 and not bool((places.diff() > 0).all())):
            raise BadMessage("places that are not in order")
        return torch.zeros(size, device=values.device).index_copy_(0, places, values)

    def size_bits(size: int) -> int:
        count = chosen(size, share)
        places = 0 if count == size else 8 * packed_bytes(count, _width(size))
        return count * value_bits + places

    return compressed(compress, decode, size_bits, feedback)


def _width(size: int) -> int:
    """Bits that tell so many places apart."""
    return max(1, (size - 1).bit_length())
