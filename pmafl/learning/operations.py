"""Multiply-adds of any network, for one sample: what the energy model calls G.

Counted are the products of matrices, convolutions and attention, as the paper does; biases, activations,
normalisation, pooling and table look-ups are not. One sample goes through the network and every operation
that torch really carries out is looked at, with fused kernels (of recurrent layers, of attention) switched
off. An operation that is neither counted nor known to need no products is an error, never a zero; so is a
way out of torch, into numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pmafl.errors import InputError

SETTING = "learning.operations_per_sample"
MODULE = "pmafl module"  # where a node of the gradient's graph says which module it belongs to
REAL_PRODUCTS = 4  # in a product of two complex numbers


def forward_operations(module: nn.Module, sample: Tensor, name: str) -> int:
    """Multiply-adds of a forward pass of `sample`, a batch of one; `name` is the network's in errors."""
    with torch.no_grad():
        return _count(module, name, lambda: module(sample))


def training_operations(module: nn.Module, sample: Tensor, name: str) -> int:
    """Multiply-adds of a forward pass and of the gradient of all parameters that want one and are used."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]

    def step() -> None:
        outputs = module(sample)
        if outputs.requires_grad:  # else no trained parameter had a part in it
            # What `torch.autograd.grad` calls; in that itself `_InTorch` would see nothing.
            _engine_run_backward(
                (outputs,),
                (torch.ones_like(outputs),),
                False,
                False,
                tuple(trained),
                allow_unreachable=True,
                accumulate_grad=False,
            )

    with torch.enable_grad():
        return _count(module, name, step)


def _count(module: nn.Module, name: str, run: Callable[[], object]) -> int:
    was_training = [member for member in module.modules() if member.training]
    module.eval()
    counter = _Counter(module, name)
    try:
        with torch.random.fork_rng(devices=[]), _unfused(), counter.watching(), counter, _InTorch(counter):
            run()
    finally:
        for member in was_training:
            member.training = True
    if not counter.total:
        raise InputError(
            f"learning.model = {name!r}: no multiply-add was found in it; set {SETTING} to a number"
        )
    return counter.total


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation that reaches a kernel, and knows which module asked for it."""

    def __init__(self, module: nn.Module, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0
        self._name = name
        self._names = {id(member): key for key, member in module.named_modules()}
        self._inside: list[nn.Module] = []

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        multiply_adds = _multiply_adds(operation, args, result)
        if multiply_adds is None:
            raise self.cannot_count(str(operation))
        self.total += multiply_adds
        return result

    def cannot_count(self, what: str) -> InputError:
        return InputError(
            f"learning.model = {self._name!r}: {what} in {self._where()} cannot be counted; set "
            f"{SETTING} to the multiply-adds of the whole network"
        )

    def _where(self) -> str:
        if self._inside:
            return self._words(self._inside[-1])
        node = torch._C._current_autograd_node()
        place = _notes(node).get(MODULE) if node is not None else None
        return f"the gradient of {place}" if place else "its gradient"

    def _words(self, member: nn.Module) -> str:
        key = self._names.get(id(member), "")
        return f"module {key!r} ({type(member).__name__})" if key else f"{type(member).__name__}"

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow the modules that are entered and left."""

        def enter(member: nn.Module, args: Any) -> None:
            self._inside.append(member)

        def leave(member: nn.Module, args: Any, result: Any) -> None:
            self._inside.pop()
            _mark_gradient(result, self._words(member))

        handles = (
            hooks.register_module_forward_pre_hook(enter),
            hooks.register_module_forward_hook(leave, always_call=True),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _mark_gradient(result: Any, words: str) -> None:
    """Note in the graph that derives a module's result whose it is; the parts of inner modules are marked."""
    nodes = [value.grad_fn for value in tree_leaves(result) if isinstance(value, Tensor)]
    while nodes:
        node = nodes.pop()
        if node is not None and MODULE not in _notes(node):
            _notes(node)[MODULE] = words
            nodes += [before for before, _ in node.next_functions]


def _notes(node: Any) -> dict[str, str]:
    notes: dict[str, str] = node.metadata
    return notes


class _InTorch(TorchFunctionMode):
    """Refuses to hand a tensor to numpy, where nobody sees what is computed with it."""

    def __init__(self, counter: _Counter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in WAYS_OUT:
            raise self._counter.cannot_count("what is computed in numpy")
        return function(*args, **(kwargs or {}))


WAYS_OUT = (Tensor.numpy, Tensor.__array__, Tensor.__dlpack__)


@contextmanager
def _unfused() -> Iterator[None]:
    """Have recurrent layers and attention computed from single operations, whatever is switched on."""
    onednn, fast_attention = torch._C._get_mkldnn_enabled(), torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.callback(torch._C._set_mkldnn_enabled, onednn)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_attention)
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        torch._C._set_mkldnn_enabled(False)
        torch.backends.mha.set_fastpath_enabled(False)
        yield


def _multiply_adds(operation: Any, args: tuple[Any, ...], result: Any) -> int | None:
    """Of one operation; None where that is not known."""
    space, _, name = operation.name().partition("::")
    name = name.partition(".")[0]
    if space == "aten" and (products := PRODUCTS.get(name.rstrip("_"))):
        is_complex = any(isinstance(value, Tensor) and value.is_complex() for value in args)
        return products(args, result) * (REAL_PRODUCTS if is_complex else 1)
    tags = set(operation.tags)
    if tags & FREE_TAGS or operation.is_view or (space == "aten" and _is_free(name)):
        return 0
    return None


def _is_free(name: str) -> bool:
    plain = name.strip("_").removesuffix("_backward").removesuffix("_backward_data")
    return plain in FREE or plain.startswith(FREE_FAMILIES) or _is_pointwise(plain)


def _is_pointwise(name: str) -> bool:
    """Whether an operation works value by value; its change in place and its gradient do not say so."""
    family = getattr(torch.ops.aten, name, None)
    members = [getattr(family, member) for member in family.overloads()] if family else []
    return any(torch.Tag.pointwise in member.tags for member in members)


def _matrices(left: int, right: int) -> Callable[[tuple[Any, ...], Any], int]:
    """Products of (..., n, m) with (..., m, k), the operands at these places of the arguments."""

    def count(args: tuple[Any, ...], result: Any) -> int:
        one, other = args[left], args[right]
        return int(one.numel() * (other.shape[-1] if other.dim() > 1 else 1))

    return count


def _spread(*places: int) -> Callable[[tuple[Any, ...], Any], int]:
    """Of operands that are multiplied value by value, in these places of the arguments.

    Where the result has more values than both, each value of one meets several of the other: a product of
    matrices, once it is summed. Values that are repeated without a copy are one. So it is where parameters
    meet fewer values than they are: a matrix by a vector.
    """

    def count(args: tuple[Any, ...], result: Any) -> int:
        operands = [args[place] for place in places]
        shapes = [_distinct(operand) for operand in operands]
        products, sizes = prod(torch.broadcast_shapes(*shapes)), [*map(prod, shapes)]  # type: ignore[no-untyped-call]
        by_vector = any(
            _is_parameter(one) and 1 < other < size == products
            for one, size, other in zip(operands, sizes, reversed(sizes), strict=True)
        )
        return products if products > max(sizes) or by_vector else 0

    return count


def _is_parameter(operand: Any) -> bool:
    """Whether an operand is a parameter, or one in another shape."""
    return isinstance(operand, nn.Parameter) or isinstance(getattr(operand, "_base", None), nn.Parameter)


def _distinct(operand: Any) -> list[int]:
    """The shape of an operand without repetition."""
    if not isinstance(operand, Tensor):
        return [1]
    if operand.layout is not torch.strided:
        return list(operand.shape)
    return [size if step else 1 for size, step in zip(operand.shape, operand.stride(), strict=True)]


def _outer(args: tuple[Any, ...], result: Any) -> int:
    return int(result.numel())


def _affine_grid(args: tuple[Any, ...], result: Any) -> int:
    """Each place of a grid, with a one behind it, by a matrix."""
    return int(result.numel() * args[0].shape[-1])


def _linear(args: tuple[Any, ...], result: Any) -> int:
    return int(args[0].numel() * args[1].shape[0])


def _trilinear(args: tuple[Any, ...], result: Any) -> int:
    """Of bilinear layers: three tensors, spread over common dimensions, are multiplied value by value."""
    shapes = []
    for values, spread in zip(args[:3], args[3:6], strict=True):
        shape = list(values.shape)
        for place in spread:
            shape.insert(place, 1)
        shapes.append(shape)
    return prod(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def _convolution(args: tuple[Any, ...], result: Any) -> int:
    inputs, weights, transposed = args[0], args[1], args[6]
    return int((inputs if transposed else result).numel() * prod(weights.shape[1:]))


def _convolution_backward(args: tuple[Any, ...], result: Any) -> int:
    outputs, inputs, weights, transposed, wanted = args[0], args[1], args[2], args[7], args[10]
    once = (inputs if transposed else outputs).numel() * prod(weights.shape[1:])
    return int(once * sum(wanted[:2]))


PRODUCTS: dict[str, Callable[[tuple[Any, ...], Any], int]] = {
    "mm": _matrices(0, 1),
    "bmm": _matrices(0, 1),
    "mv": _matrices(0, 1),
    "dot": _matrices(0, 1),
    "vdot": _matrices(0, 1),
    "addmm": _matrices(1, 2),
    "_addmm_activation": _matrices(1, 2),
    "baddbmm": _matrices(1, 2),
    "addbmm": _matrices(1, 2),
    "addmv": _matrices(1, 2),
    "addr": _outer,
    "mul": _spread(0, 1),
    "addcmul": _spread(1, 2),
    "affine_grid_generator": _affine_grid,
    "linear": _linear,
    "_trilinear": _trilinear,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_backward,
}

# What needs no products of matrices. What works value by value, or only looks elsewhere in memory, says so by
# a tag; these do not, or not in every version of torch.
FREE_TAGS = {torch.Tag.pointwise, torch.Tag.view_copy, torch.Tag.inplace_view}
# New tensors.
NEW = """
zeros ones full empty empty_strided empty_permuted arange linspace logspace range eye scalar_tensor
tril_indices triu_indices zeros_like ones_like full_like empty_like lift_fresh lift_fresh_copy fill zero
rand rand_like randn randn_like randint randint_like randperm bernoulli exponential geometric multinomial
normal normal_functional log_normal cauchy poisson random uniform hann_window hamming_window
blackman_window bartlett_window kaiser_window
"""
# The same values elsewhere.
MOVED = """
rot90 block_diag complex as_strided_scatter sparse_coo_tensor_with_dims_and_tensors
clone copy to_copy cat stack gather take put where roll flip repeat repeat_interleave constant_pad_nd tril
triu diag_embed diagonal_scatter select_scatter slice_scatter slice select diagonal unfold im2col col2im
pixel_shuffle pixel_unshuffle channel_shuffle unsafe_view reshape_alias unsafe_split
unsafe_split_with_sizes resize set sort topk kthvalue median nanmedian mode nonzero unique unique2
unique_dim unique_consecutive bucketize searchsorted bincount histc masked_select masked_scatter
pack_padded_sequence pad_packed_sequence
"""
# Sums, means and normalisation.
SUMMED = """
all amax amin aminmax any argmax argmin max mean min norm prod std std_mean sum var var_mean logsumexp
linalg_vector_norm count_nonzero softmax log_softmax safe_softmax masked_softmax cumsum cumprod cummax
cummin logcumsumexp segment_reduce weight_norm_interface renorm batch_norm_impl_index
batch_norm_with_update batch_norm_no_update batch_norm_with_update_functional fused_rms_norm
cudnn_batch_norm miopen_batch_norm nansum trace
"""
# Activations, and gates of recurrent cells, whose products are apart.
SQUASHED = """
glu prelu prelu_kernel rrelu_with_noise rrelu_with_noise_functional native_dropout thnn_fused_lstm_cell
thnn_fused_gru_cell hardswish log_sigmoid_forward log_sigmoid floor_divide polar linalg_cross
"""
# Questions about values.
ASKED = """
promote_types local_scalar_dense equal is_nonzero assert_async assert_scalar assert_tensor_metadata isin
"""
FREE = frozenset(" ".join((NEW, MOVED, SUMMED, SQUASHED, ASKED)).split())
FREE_FAMILIES = (
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "embedding",
    "fractional_max_pool",
    "grid_sampler_",
    "index",
    "max_pool",
    "max_unpool",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "new_",
    "reflection_pad",
    "replication_pad",
    "scatter",
    "upsample_",
)
