"""Values rounded to 32, 16 or 8 bits each (``learning.upload_bits_per_parameter``), as the paper has them.

Rounding goes to the nearest value, so an error has no direction on average but does not vanish in one upload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmafl.learning.uploads.base import Upload
from pmafl.learning.workload import rounded_bits
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.uploads.base import Message


def rounding(learning: LearningSettings) -> Upload:
    """The default; 32 bits lose nothing."""
    per_parameter = learning.upload_bits_per_parameter

    def encode(
        vector: Tensor, residual: Tensor | None, rng: np.random.Generator
    ) -> tuple[Message, Tensor | None]:
        from pmafl.learning.quantise import encode as rounded

        return rounded(vector, per_parameter), None

    def decode(message: Message, size: int) -> Tensor:
        from pmafl.learning.quantise import decode as read

        return read(message)

    return Upload(encode, decode, lambda size: rounded_bits(size, per_parameter), of_changes=False)
