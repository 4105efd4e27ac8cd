"""Tensors on their way to a worker and back, apart from the rest of a message, which is small.

On one machine their bytes lie in memory that both sides see (`Block`). It has no name, so nothing is left of
it when the last process that knows it has ended, however that was.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 64  # bytes, as torch's own


class Place(NamedTuple):
    """Stands for a tensor in a message: its number among those that travel beside it."""

    number: int


class Form(NamedTuple):
    """Where a tensor lies in a block, and what it is."""

    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]


def pack(message: Any, tensors: list[Tensor]) -> Any:
    """The message with a place for each tensor in it; the tensors are appended to the list."""
    if isinstance(message, Tensor):
        tensors.append(message)
        return Place(len(tensors) - 1)
    return _rebuilt(message, lambda part: pack(part, tensors))


def unpack(message: Any, tensors: Sequence[Tensor]) -> Any:
    """The message with its tensors in their places."""
    if isinstance(message, Place):
        return tensors[message.number]
    return _rebuilt(message, lambda part: unpack(part, tensors))


def _rebuilt(message: Any, change: Any) -> Any:
    if isinstance(message, Mapping):
        return {key: change(part) for key, part in message.items()}
    if type(message) in (list, tuple):
        return type(message)(map(change, message))
    if is_dataclass(message) and not isinstance(message, type):
        return replace(message, **{one.name: change(getattr(message, one.name)) for one in fields(message)})
    return message


class Block:
    """Memory that this process shares with those it forks from now on. It grows when it must."""

    def __init__(self) -> None:
        self._file = os.memfd_create("pmafl")
        self._view = memoryview(b"")

    def fileno(self) -> int:
        return self._file

    def write(self, tensors: Sequence[Tensor]) -> list[Form]:
        """Put tensors in, in place of what was there; whoever has the forms can read them."""
        forms, end = [], 0
        for values in tensors:
            forms.append(Form(end, values.dtype, tuple(values.shape)))
            end += -(-values.nbytes // ALIGNMENT) * ALIGNMENT
        if end > os.fstat(self._file).st_size:
            os.ftruncate(self._file, end)
        for values, form in zip(tensors, forms, strict=True):
            if values.numel():
                self._tensor(form).copy_(values)
        return forms

    def read(self, forms: Sequence[Form]) -> list[Tensor]:
        """What was put in, where it lies: not to be changed, and gone when something else is put in."""
        return [self._tensor(form) if 0 not in form.shape else _empty(form) for form in forms]

    def take(self, forms: Sequence[Form]) -> list[Tensor]:
        """Copies of what was put in: the block may then be used again."""
        return [values.clone() for values in self.read(forms)]

    def close(self) -> None:
        self._view = memoryview(b"")
        os.close(self._file)

    def _tensor(self, form: Form) -> Tensor:
        count = torch.Size(form.shape).numel()
        if form.start + count * form.dtype.itemsize > len(self._view):  # the other side has made it larger
            self._view = memoryview(mmap.mmap(self._file, 0))
        flat = torch.frombuffer(self._view, dtype=form.dtype, count=count, offset=form.start)
        return flat.view(form.shape)


def _empty(form: Form) -> Tensor:
    return torch.empty(form.shape, dtype=form.dtype)
