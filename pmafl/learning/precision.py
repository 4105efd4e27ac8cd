"""bf16, on every processor: operands of products are rounded to 8 significant bits, their sums are not.

Torch's autocast says what is rounded. On a processor without instructions for bf16 torch's own products of
rounded operands make training many times as slow as in float32 (`benchmarks/precision.py`), so here they run
in float32: the operands are the same, and what comes out is rounded as before.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten
#: All else that autocast rounds for is left to torch.
PRODUCTS = frozenset(
    {
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten.baddbmm.default,
        aten.convolution.default,
        aten.convolution_backward.default,
    }
)


def arithmetic(precision: torch.dtype, values: Tensor) -> AbstractContextManager[object]:
    """Where networks run forward in this precision, on the device that the values are on."""
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(values.device.type, dtype=precision)


def products(precision: torch.dtype, values: Tensor) -> AbstractContextManager[object]:
    """Where products of this precision, forward and backward, take no longer than they need to."""
    if precision == torch.float32 or not values.is_cpu or _has_instructions():
        return nullcontext()
    return WideProducts()  # type: ignore[no-untyped-call]


def _has_instructions() -> bool:
    """Whether this processor multiplies numbers of bf16, as far as this version of torch can tell."""
    if hasattr(torch.cpu, "get_capabilities"):
        return any(there for name, there in torch.cpu.get_capabilities().items() if "bf16" in name)
    return bool(torch._C._has_mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported())


class WideProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Products of bf16 operands are computed in float32, and rounded to bf16."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func not in PRODUCTS or args[0].dtype != torch.bfloat16:
            return func(*args, **(kwargs or {}))
        wide = tree_map_only(Tensor, Tensor.float, (args, kwargs or {}))
        return tree_map_only(Tensor, Tensor.bfloat16, func(*wide[0], **wide[1]))
