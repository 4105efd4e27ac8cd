"""Short reprs for classes that hold much: a notebook shows a line or two of them, not several screens."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

FEW = 6  # entries that are shown one by one
Class = TypeVar("Class")


def brief(kind: type[Class]) -> type[Class]:
    """Give a dataclass a short repr: long lists and arrays by size and range, other objects by their name.

    What is None or empty is left out.
    """
    kind.__repr__ = _repr  # type: ignore[method-assign]
    return kind


def _repr(entity: Any) -> str:
    values = {entry.name: getattr(entity, entry.name) for entry in fields(entity)}
    shown = (f"{name}={summary(value)}" for name, value in values.items() if not _is_nothing(value))
    return f"{type(entity).__name__}({', '.join(shown)})"


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, Sequence | Mapping) and len(value) == 0)


def summary(value: Any) -> str:
    """A value in a few words."""
    if hasattr(value, "shape") and hasattr(value, "tolist"):
        return _array(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | dict) and len(value) > FEW:
        return f"<{len(value)} {'entries' if isinstance(value, dict) else 'values'}>"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(summary, value))}]"
    if is_dataclass(value) or callable(value):
        return f"<{getattr(value, '__name__', type(value).__name__)}>"
    text = repr(value)
    return text if len(text) <= 120 else f"<{type(value).__name__}>"


def _array(value: Any) -> str:
    """An array of numpy, or a tensor: this module knows neither library."""
    shape = tuple(value.shape)
    if len(shape) == 1 and shape[0] <= FEW:
        return summary(value.tolist())
    size = " x ".join(map(str, shape))
    if len(shape) != 1:
        return f"<{size} {value.dtype}>"
    if "bool" in str(value.dtype):
        return f"<{int(value.sum())} of {size} true>"
    return f"<{size} values, {float(value.min()):.4g} to {float(value.max()):.4g}>"
