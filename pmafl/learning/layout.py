"""Chains of layers that run faster than torch's own, to the same values.

Where no gradient is wanted, dense layers need no copies. Convolutional networks stay in the memory layout
that oneDNN, torch's library for CPUs, computes in: torch hands every operation's result back in a layout of
its own, so that by default each convolution, pooling and ReLU starts and ends with a copy, and pooling is
done outside. Staying inside gives the same bits in a fifth less time. Keeping freed memory saves another
fifth: blocks of this size would go back to the system after every operation, and come back page by page.
"""

import ctypes
import sys
from collections.abc import Iterable
from itertools import pairwise

import torch
from torch import Tensor, nn

INSIDE = (nn.Conv2d, nn.MaxPool2d, nn.ReLU)  # what runs in oneDNN's layout
OUTSIDE = (nn.Flatten, nn.Linear, nn.Dropout)
VECTOR = 16  # numbers in the widest register
KEPT_BLOCK_BYTES, KEPT_BYTES = 128 << 20, 1 << 30
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


def fits_onednn(members: list[nn.Module]) -> bool:
    """Whether a network is a chain with convolutions and nothing that would not work in oneDNN's layout."""
    if not torch._C._has_mkldnn or not any(type(m) is nn.Conv2d for m in members):
        return False
    return all(type(m) in INSIDE + OUTSIDE and _is_plain(m) for m in members)


def _is_plain(member: nn.Module) -> bool:
    if isinstance(member, nn.Conv2d):
        return member.padding_mode == "zeros" and not isinstance(member.padding, str)
    if isinstance(member, nn.MaxPool2d):
        return member.dilation == 1 and not member.return_indices
    return True


def suits_channels_last(modules: Iterable[nn.Module]) -> bool:
    """Whether images should have their channels last in memory, in which convolutions are fastest.

    oneDNN's gradient of a convolution of single pixels with a stride writes beyond its memory in that layout
    where the channels do not fill a vector register; the process then dies, or worse.
    """
    convolutions = [module for module in modules if isinstance(module, nn.Conv2d)]
    narrow = (c for c in convolutions if c.in_channels // c.groups % VECTOR)
    return bool(convolutions) and not any(max(c.kernel_size) == 1 < max(c.stride) for c in narrow)


class Chain(nn.Sequential):
    """A Sequential that, where no gradient is wanted, computes Linear layers and their ReLU in one tensor.

    copies: whether its members change what it is given, which others still need, so that they get a copy.
    """

    copies = False

    def forward(self, x: Tensor) -> Tensor:
        if self.copies:
            x = x.clone()
        if torch.is_grad_enabled():
            result: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
            return result
        own = False  # whether x was made by the member before, and may be changed
        for member in self:
            if own and type(member) is nn.ReLU:
                x.relu_()
            elif own := type(member) is nn.Linear and member.bias is not None and x.dim() == 2:
                # Faster than addmm, which first fills the result with copies of the bias.
                x = torch.mm(x, member.weight.t()).add_(member.bias)
            else:
                x = member(x)
        return x


class OneDnnChain(Chain):
    """A Sequential that changes to oneDNN's layout at a convolution, and back where it must.

    For float32 on a CPU; all else takes the ordinary way. A ReLU before a pooling comes after it: the same
    function, a quarter of the work. None works in place, since oneDNN's pooling is differentiated by its
    outputs.
    """

    def __init__(self, *members: nn.Module) -> None:
        members = tuple(nn.ReLU() if type(member) is nn.ReLU else member for member in members)
        ordered = list(members)
        for number, (first, second) in enumerate(pairwise(members)):
            if type(first) is nn.ReLU and type(second) is nn.MaxPool2d:
                ordered[number : number + 2] = second, first
        super().__init__(*ordered)

    def forward(self, x: Tensor) -> Tensor:
        if self.copies:
            x = x.clone()
        wanted = x.is_cpu and not torch.is_autocast_enabled("cpu")
        for member in self:
            if wanted and isinstance(member, nn.Conv2d) and not x.is_mkldnn:
                x = x.to_mkldnn()
            elif x.is_mkldnn and not isinstance(member, INSIDE):
                x = x.to_dense()
            x = member(x)
        return x.to_dense() if x.is_mkldnn else x


def keep_freed_memory() -> None:
    """Tell the C library to keep freed blocks for the next operation, where that library is glibc."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
