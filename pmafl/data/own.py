"""A user's own data: arrays x, y and optionally x_test, y_test, checked before anything else sees them.

Without a test set, the second, seventh, twelfth ... sample of each class are set aside as one: a fifth of the
data, with every class in both parts, and the same on every machine.
"""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl import arrays
from pmafl.data.dataset import Dataset, FloatArray, IntArray
from pmafl.errors import InputError

NAMES = ("x", "y", "x_test", "y_test")
TEST_EVERY = 5
CHUNK = 4096


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file."""
    try:
        return arrays.read_npz(path)
    except arrays.Unreadable as reason:
        raise InputError(f"data.dataset = {str(path)!r}: {reason}") from None


def from_arrays(name: str, given: object, source: str, classes: int | None = None) -> Dataset:
    """A data set of arrays x, (N, F) or (N, C, H, W), and y, (N,); and x_test and y_test if there are any.

    With `classes` it is one device's part of a data set of so many, and need not have them all.
    """
    where = f"data.dataset = {name!r}"
    got = _listed(given) if isinstance(given, Mapping) else type(given).__name__
    if not isinstance(given, Mapping) or not {"x", "y"} <= set(given) <= set(NAMES):
        raise InputError(f"{where}: needs arrays named x and y, and may have x_test and y_test; got {got}")
    if ("x_test" in given) != ("y_test" in given):
        raise InputError(f"{where}: x_test and y_test must come together; got {got}")
    try:
        own = {key: np.asarray(value) for key, value in given.items()}
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: not arrays of numbers ({error})") from None
    x, y = _samples(own["x"], f"{where}: x"), _labels(own["y"], f"{where}: y")
    if "x_test" in own:
        x_test = _samples(own["x_test"], f"{where}: x_test")
        y_test = _labels(own["y_test"], f"{where}: y_test")
    else:
        x, y, x_test, y_test = _split(x, y, where)
    _check_together(x, y, x_test, y_test, where)
    if classes is None:
        _check_all_classes(y, y_test, where)
        classes = int(y.max()) + 1
    elif (highest := max(y.max(), y_test.max())) >= classes:
        raise InputError(f"{where}: has label {highest}; must be 0 to {classes - 1}")
    mean, std = _moments(x)
    class_names = tuple(map(str, range(classes)))
    return Dataset(name, x, y, x_test, y_test, classes, mean, std, class_names, source)


def _listed(names: Iterable[object]) -> str:
    """The first names of a stranger's arrays, on one line."""
    texts = [str(name)[:40] for name in itertools.islice(names, 8)]
    return ", ".join(text if text.isprintable() else ascii(text) for text in texts)


def _samples(array: NDArray[Any], where: str) -> NDArray[Any]:
    if array.dtype.kind not in "buif":
        raise InputError(f"{where} holds {array.dtype}; must be numbers")
    if array.ndim not in (2, 4) or 0 in array.shape:
        raise InputError(
            f"{where} has shape {array.shape}; must be (N, features) or (N, channels, height, width)"
        )
    if array.dtype == np.uint8:
        return array
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bad.any():
        raise InputError(f"{where}: sample {bad.argmax()} is not finite (NaN or too large); clean or drop it")
    return array


def _labels(array: NDArray[Any], where: str) -> IntArray:
    whole = array.dtype.kind in "bui" or (
        array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all()
    )
    if array.ndim != 1 or not whole or (array < 0).any():
        raise InputError(
            f"{where} is {array.dtype} of shape {array.shape}; must be a whole number 0, 1, 2 ... a sample"
        )
    with np.errstate(invalid="ignore"):  # too large a label becomes a wrong one, which is refused later
        return array.astype(np.int64)


def _split(x: NDArray[Any], y: IntArray, where: str) -> tuple[NDArray[Any], IntArray, NDArray[Any], IntArray]:
    if len(x) != len(y):
        raise InputError(f"{where}: x has {len(x)} samples, but y has {len(y)} labels")
    labels, first, counts = np.unique(np.sort(y), return_index=True, return_counts=True)
    if counts.min() < 2:
        raise InputError(
            f"{where}: class {labels[counts.argmin()]} has only one sample; it needs one for training and "
            f"one for test, or give x_test and y_test"
        )
    rank = np.empty(len(y), dtype=np.int64)
    rank[np.argsort(y, kind="stable")] = np.arange(len(y)) - np.repeat(first, counts)
    test = rank % TEST_EVERY == 1
    return x[~test], y[~test], x[test], y[test]


def _check_together(x: NDArray[Any], y: IntArray, x_test: NDArray[Any], y_test: IntArray, where: str) -> None:
    for names, samples, labels in (("x", x, y), ("x_test", x_test, y_test)):
        if len(samples) != len(labels):
            raise InputError(f"{where}: {names} has {len(samples)} samples, but {len(labels)} labels")
    if x.shape[1:] != x_test.shape[1:] or x.dtype != x_test.dtype:
        raise InputError(
            f"{where}: a sample of x is {x.dtype} {x.shape[1:]}, one of x_test is {x_test.dtype} "
            f"{x_test.shape[1:]}; must be alike"
        )


def _check_all_classes(y: IntArray, y_test: IntArray, where: str) -> None:
    trained, tested = np.unique(y), np.unique(y_test)
    gaps = np.flatnonzero(trained != np.arange(len(trained)))
    if len(gaps):
        raise InputError(
            f"{where}: no training sample has label {gaps[0]}, but one has {trained[gaps[0]]}; labels must "
            f"be 0, 1, 2 ... without a gap"
        )
    if len(odd := np.setxor1d(trained, tested)):
        lacking = "y_test" if odd[0] in trained else "y"
        raise InputError(f"{where}: class {odd[0]} is missing in {lacking}; each class needs both")


def _moments(x: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation per channel or feature, in chunks: a copy in double precision may not fit."""
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    unit = 255 if x.dtype == np.uint8 else 1
    mean = x.mean(axis=axes, dtype=np.float64)
    squares = sum(
        np.square(x[i : i + CHUNK] - mean.reshape(shape)).sum(axis=axes) for i in range(0, len(x), CHUNK)
    )
    std = np.sqrt(squares / (x.size / x.shape[1]))
    constant = std <= np.finfo(np.float32).eps * np.abs(mean)
    return (mean / unit).astype(np.float32), np.where(constant, 1, std / unit).astype(np.float32)
