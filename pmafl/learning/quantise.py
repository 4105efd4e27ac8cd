"""Uploads as they go over the air: 32, 16 or 8 bits per parameter.

A payload is a tuple of tensors whose bytes are exactly the Q bits that the radio is charged for
(`workload.upload_bits`). 16 bits are IEEE half precision. 8 bits are signed integers with one 32-bit scale
for each block of parameters.
"""

import torch
from torch import Tensor

from pmafl.learning.workload import BLOCK

Payload = tuple[Tensor, ...]


def encode(values: Tensor, bits_per_parameter: int) -> Payload:
    """Round a float32 vector to a payload."""
    if bits_per_parameter == 32:
        return (values.clone(),)
    if bits_per_parameter == 16:
        return (values.half(),)
    blocks = torch.nn.functional.pad(values, (0, -len(values) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1) / 127 if len(values) else values.clone()
    steps = torch.where(scales > 0, scales, 1.0)
    codes = (blocks / steps[:, None]).round().to(torch.int8)
    return codes.view(-1)[: len(values)], scales


def decode(payload: Payload) -> Tensor:
    """The float32 vector that the server reads from a payload."""
    if len(payload) == 1:
        return payload[0].float()
    codes, scales = payload
    return codes.float() * scales.repeat_interleave(BLOCK)[: len(codes)]


def part(payload: Payload, start: int, stop: int) -> Payload:
    """The payload of the parameters from `start`, which begins a block, to `stop`, without a copy."""
    if len(payload) == 1:
        return (payload[0][start:stop],)
    codes, scales = payload
    return codes[start:stop], scales[start // BLOCK : -(-stop // BLOCK)]
