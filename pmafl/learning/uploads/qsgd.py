r"""Stochastic quantisation to any number of bits.

D. Alistarh, D. Grubic, J. Li, R. Tomioka, M. Vojnovic, "QSGD: communication-efficient SGD via gradient
quantization and encoding", NeurIPS 2017. In each bucket of the change, with s levels,

.. math:: Q(v_i) = \|v\| \operatorname{sgn}(v_i) \, \xi_i / s

where :math:`\xi_i` is one of the two whole numbers around :math:`s |v_i| / \|v\|`, drawn so that the mean is
right: it is unbiased. Codes are of fixed length here, where the paper has Elias's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pmafl.errors import InputError
from pmafl.learning.uploads.base import BadMessage, Upload, compressed, pack, packed_bytes, unpack
from pmafl.settings import LearningSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from pmafl.learning.uploads.base import Message


def qsgd(
    learning: LearningSettings,
    bits: int = 4,
    bucket: int = 1024,
    norm: Literal["max", "2"] = "max",
    feedback: bool = False,
) -> Upload:
    """`bits` per value, its sign included, so 2^(bits-1) - 1 levels; a 32-bit norm for each `bucket`.

    norm: the largest value, as in the paper's experiments, or the 2-norm, as in its theory. Unbiased without
    `feedback`, which it does not need.
    """
    if not 2 <= bits <= 16:
        raise InputError(f"bits is {bits}; it must be from 2 to 16")
    if bucket < 1:
        raise InputError(f"bucket is {bucket}; it must be 1 or more")
    levels = 2 ** (bits - 1) - 1

    def compress(vector: Tensor, rng: np.random.Generator) -> Message:
        import torch

        rows = torch.nn.functional.pad(vector, (0, -len(vector) % bucket)).view(-1, bucket)
        norms = rows.abs().amax(dim=1) if norm == "max" else torch.linalg.vector_norm(rows, dim=1)
        steps = torch.where(norms > 0, norms, 1.0)[:, None]
        exact = (rows.abs() / steps * levels).clamp(max=levels)
        draws = torch.from_numpy(rng.random(rows.shape, dtype="float32")).to(vector.device)
        level = exact.floor() + (draws < exact - exact.floor())
        codes = (level * rows.sign() + levels).long().flatten()[: len(vector)]
        return pack(codes, bits), norms

    def decode(message: Message, size: int) -> Tensor:
        packed, norms = message
        codes = unpack(packed, size, bits) - levels
        if int(codes.max()) > levels:
            raise BadMessage(f"a level above {levels}")
        values: Tensor = codes.float() / levels * norms.repeat_interleave(bucket)[:size]
        return values

    def size_bits(size: int) -> int:
        return 8 * packed_bytes(size, bits) + 32 * -(-size // bucket)

    return compressed(compress, decode, size_bits, feedback)
