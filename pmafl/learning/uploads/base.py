"""What an upload is: how a device's vector becomes a message, and the server's vector again.

Three functions, and what the allocator has to know beforehand: how many bits a message has. These are the
bits that really are sent, indices and scales included: a message is a tuple of tensors whose bytes are just
as many. Nothing here, nor in the uploads beside it, imports torch before a message is made, so that the
wireless side can charge for one without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pmafl.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    Message = tuple[Tensor, ...]
    Encode = Callable[[Tensor, Tensor | None, np.random.Generator], tuple[Message, Tensor | None]]
    Compress = Callable[[Tensor, np.random.Generator], Message]
    Decode = Callable[[Message, int], Tensor]


class BadMessage(ValueError):
    """A message that no device would have sent."""


@dataclass(frozen=True)
class Upload:
    """A way to upload a vector.

    Attributes:
        encode: from a float32 vector, the residual that the device holds (None where it holds none) and a
            random generator to a message and the residual after it.
        decode: from a message and the vector's size to the vector that the server reads; raises `BadMessage`
            for what `encode` cannot have made.
        bits: of a message, from the vector's size.
        of_changes: whether the vector is the change from what the device received, or else the values
            themselves.
        feedback: whether a device keeps what a message left out, and adds it to the next: the residual.
    """

    encode: Encode
    decode: Decode
    bits: Callable[[int], int]
    of_changes: bool = True
    feedback: bool = False


Maker = Callable[..., Upload]


def compressed(compress: Compress, decode: Decode, bits: Callable[[int], int], feedback: bool) -> Upload:
    r"""An upload of changes that loses something, with or without error feedback.

    With it, a device sends :math:`m_t = C(x_t + r_t)` and keeps :math:`r_{t+1} = x_t + r_t - m_t`, so that
    what was sent and what is held always sum to all changes so far. Seide, Fu, Droppo, Li, Yu: 1-bit
    stochastic gradient descent, Interspeech 2014; Karimireddy, Rebjock, Stich, Jaggi: Error feedback fixes
    SignSGD, ICML 2019.
    """

    def encode(
        vector: Tensor, residual: Tensor | None, rng: np.random.Generator
    ) -> tuple[Message, Tensor | None]:
        wanted = vector if residual is None else vector + residual
        message = compress(wanted, rng)
        return message, wanted - decode(message, len(vector)) if feedback else None

    return Upload(encode, decode, bits, feedback=feedback)


def chosen(size: int, share: float) -> int:
    """How many of `size` values a share is: at least one."""
    return min(size, max(1, round(share * size)))


def check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise InputError(f"share is {share}; it must be above 0 and at most 1")


def packed_bytes(count: int, bits: int) -> int:
    """Bytes of so many codes of so many bits each."""
    return -(-count * bits // 8)


def pack(codes: Tensor, bits: int) -> Tensor:
    """Codes of a few bits each, one after another in bytes."""
    import torch

    places = torch.arange(bits, device=codes.device)
    flat = (codes[:, None] >> places & 1).flatten()
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % 8)).view(-1, 8)
    return (flat << torch.arange(8, device=codes.device)).sum(dim=1).to(torch.uint8)


def unpack(packed: Tensor, count: int, bits: int) -> Tensor:
    """The codes in the bytes."""
    import torch

    if len(packed) != packed_bytes(count, bits):
        raise BadMessage(f"{len(packed)} bytes for {count} codes of {bits} bits")
    flat = (packed[:, None].long() >> torch.arange(8, device=packed.device) & 1).flatten()[: count * bits]
    return (flat.view(count, bits) << torch.arange(bits, device=packed.device)).sum(dim=1)
