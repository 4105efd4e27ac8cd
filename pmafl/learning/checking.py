"""Checking what an algorithm gives before anybody builds on it.

An algorithm may be a stranger's code: whatever is wrong with what it returns becomes one line that says what
came and what would be right. Who calls these functions adds whose fault it is (`pmafl.plugins.blaming`).
"""

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmafl.errors import InputError

Tensors = dict[str, Tensor]
Sizes = Mapping[str, int]


def pair(raw: Any, function: str) -> tuple[Any, Any]:
    """The two things that `function` has to return."""
    if not isinstance(raw, tuple) or len(raw) != 2:
        raise InputError(
            f"{function} returned {kind(raw)}; it must return two mappings from names to tensors"
        )
    return raw


def tensors(what: str, raw: Any, sizes: Sizes | None = None) -> Tensors:
    """Flat tensors by name; where `sizes` are given, of just these names and sizes."""
    if not isinstance(raw, Mapping):
        raise InputError(f"{what} is {kind(raw)}; it must be a mapping from names to tensors")
    for name, value in raw.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.ndim != 1:
            raise InputError(f"{what} has {name!r}: {kind(value)}; it must be a flat tensor with a name")
    found = sizes_of(raw)
    if sizes is not None and found != sizes:
        raise InputError(f"{what} is of sizes {found}; it must be {dict(sizes)}")
    return {name: value.detach() for name, value in raw.items()}


def uploads(raw: Any, sizes: Sizes, withheld: Set[str]) -> Tensors:
    """What a device sends, as it was announced: float32, for that is what is rounded and charged."""
    sent = {name: value for name, value in tensors("the upload", raw).items() if name not in withheld}
    for name, value in sent.items():
        if value.dtype != torch.float32:
            raise InputError(f"the upload has {name!r}: {kind(value)}; it must be of torch.float32")
    if (found := sizes_of(sent)) != sizes:
        raise InputError(f"uploads {found}; it said {dict(sizes)}")
    return sent


@contextmanager
def untouched(what: str, given: Tensors) -> Iterator[None]:
    """Refuse a change of tensors that others read too: whom it reaches would depend on who trains where."""
    before = {name: value._version for name, value in given.items()}
    yield
    if changed := [name for name, value in given.items() if value._version != before[name]]:
        raise InputError(
            f"changed {changed[0]!r} of {what} in place; it must return new tensors, as clone() makes them"
        )


def names_and_sizes(
    server: Tensors, received: Mapping[str, Any], uploaded: Mapping[str, NDArray[Any]]
) -> None:
    """Refuse a plan that cannot be carried out: devices receive what there is, and uploads have one size."""
    if unknown := [name for name in received if name not in server]:
        held = ", ".join(server) or "nothing"
        raise InputError(f"downloads {unknown[0]!r}, which the server does not hold; it holds {held}")
    for name, size in uploaded.items():
        different = set(np.unique(size).tolist()) - {0}
        if name in server and different:
            different.add(len(server[name]))
        if len(different) > 1:
            given = " or ".join(map(str, sorted(different)))
            raise InputError(
                f"{name!r} is of size {given}; what has one name has one size, or 0 where it is not sent"
            )


def sizes_of(values: Mapping[str, Tensor]) -> dict[str, int]:
    return {name: len(value) for name, value in values.items()}


def kind(raw: Any) -> str:
    """What came, in a few words."""
    if isinstance(raw, Tensor):
        return f"a tensor of {raw.dtype} with shape {tuple(raw.shape)}"
    return f"a {type(raw).__name__}" + (f" of {len(raw)}" if isinstance(raw, tuple) else "")
