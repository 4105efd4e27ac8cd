"""The signs of the changes, and their mean size.

J. Bernstein, Y.-X. Wang, K. Azizzadenesheli, A. Anandkumar, "signSGD", ICML 2018; with the scale and the
error feedback of S. P. Karimireddy, Q. Rebjock, S. U. Stich, M. Jaggi, "Error feedback fixes SignSGD", ICML
2019. It is biased: every change is sent as if it were of mean size. Error feedback, the default, makes up for
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmafl.learning.uploads.base import Upload, compressed, pack, packed_bytes, unpack
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.uploads.base import Message


def sign(learning: LearningSettings, feedback: bool = True) -> Upload:
    """One bit per value, and one scale of 32 bits; 0 counts as positive."""

    def compress(vector: Tensor, rng: np.random.Generator) -> Message:
        return pack((vector >= 0).long(), 1), vector.abs().mean()[None]

    def decode(message: Message, size: int) -> Tensor:
        packed, scale = message
        return (2.0 * unpack(packed, size, 1) - 1.0) * scale

    return compressed(compress, decode, lambda size: 8 * packed_bytes(size, 1) + 32, feedback)
