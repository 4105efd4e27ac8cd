"""A user's own data: arrays x, y and optionally x_test, y_test, client, checked before anybody sees them.

Without a test set, the second, seventh, twelfth ... sample of each class are set aside as one: a fifth of the
data, with every class in both parts, and the same on every machine. Where samples belong to clients, it is
the second, seventh, twelfth ... of each client, in the order of their classes.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl.data import layouts
from pmafl.data.adapters import array_of, as_arrays
from pmafl.data.dataset import Dataset, FloatArray, IntArray, Reading
from pmafl.errors import InputError

TEST_EVERY = 5
CHUNK = 4096
LARGEST_ID = 2**31 - 1
TOO_LARGE_LABEL = 2.0**63  # for the whole numbers that labels are kept as
AS_SETTINGS_SAY = Reading()

Arrays = dict[str, NDArray[Any]]


def from_arrays(
    name: str, given: object, source: str, classes: int | None = None, reading: Reading = AS_SETTINGS_SAY
) -> Dataset:
    """A data set of arrays x, (N, ...), and y, (N,) or (N, outputs); and x_test, y_test, client, client_test.

    `given` is a mapping with them, or whatever `adapters` can make one of. With `classes` it is one device's
    part of a data set of so many (or so many values to predict), and need not have them all.
    """
    where = f"data.dataset = {name!r}"
    own = _named(as_arrays(given, reading, where), reading, where)
    alone = "x_test" not in own
    x = _samples(own["x"], f"{where}: x")
    x_test = x[:0] if alone else _samples(own["x_test"], f"{where}: x_test")
    x, x_test, layout = _arranged(x, x_test, reading.layout, where)
    shape = own["x"].shape
    y, class_names = _targets(own["y"], reading, f"{where}: y")
    y_test = y[:0] if alone else _test_targets(own["y_test"], y, class_names, f"{where}: y_test")
    _check_lengths(where, x=x, y=y)
    client, client_test, client_names = _clients(own, where)
    if client is not None:
        _check_lengths(where, x=x, client=client)
    if alone:
        test = _set_aside(y, client, client_names, where)
        x, y, x_test, y_test = x[~test], y[~test], x[test], y[test]
        client, client_test = (None, None) if client is None else (client[~test], client[test])
    elif client_test is not None:
        _check_lengths(where, x_test=x_test, client_test=client_test)
    _check_alike(x, y, x_test, y_test, where)
    _check_clients(client, client_test, client_names, where)
    regression = y.dtype.kind == "f"
    if regression:
        if classes not in (None, y.shape[1]):
            raise InputError(f"{where}: has {y.shape[1]} values per sample; the run needs {classes}")
        classes = 0
    elif classes is None:
        _check_all_classes(y, y_test, client is not None, where)
        classes = int(y.max()) + 1
    elif (highest := max(y.max(), y_test.max())) >= classes:
        raise InputError(f"{where}: has label {highest}; must be 0 to {classes - 1}")
    axis = layouts.channel_axis(layout)
    mean, std = _moments(x, axis)
    target_mean, target_std = _moments(y, 1) if regression else ((), ())
    notes = [layouts.in_words(layout, shape) if reading.layout == "auto" else ""]
    notes.append(f"y holds values to predict, {y.shape[1]} per sample" if regression else "")
    notes.append("x holds whole numbers: token ids, if the network has an embedding" * (x.dtype == np.int32))
    return Dataset(
        name=name,
        x_train=x,
        y_train=y,
        x_test=x_test,
        y_test=y_test,
        classes=classes,
        mean=mean,
        std=std,
        class_names=class_names or tuple(map(str, range(classes))),
        source=source,
        channel_axis=axis,
        client_train=client,
        client_test=client_test,
        client_names=client_names,
        notes=tuple(filter(None, notes)),
        target_mean=tuple(map(float, target_mean)),
        target_std=tuple(map(float, target_std)),
    )


def _named(given: Mapping[Any, Any], reading: Reading, where: str) -> Arrays:
    """The arrays under the names they have here."""
    target, client = reading.target or "y", reading.client
    names = {"x": "x", "x_test": "x_test", target: "y", f"{target}_test": "y_test"}
    names |= {client: "client", f"{client}_test": "client_test"}
    got = _listed(given)
    if not {"x", target} <= set(given) <= set(names):
        raise InputError(
            f"{where}: needs arrays named x and {target}, and may have x_test and {target}_test, {client} "
            f"and {client}_test; got {got} (data.target and data.client name others)"
        )
    if client != Reading.client and client not in given:
        raise InputError(f"{where}: has no array {client!r}, as data.client says; got {got}")
    try:
        own = {names[key]: array_of(value) for key, value in given.items()}
    except (ValueError, TypeError, RuntimeError) as error:  # the last is torch's
        raise InputError(f"{where}: not arrays of numbers ({' '.join(str(error).split())})") from None
    if ("x_test" in own) != ("y_test" in own):
        raise InputError(f"{where}: x_test and y_test must come together; got {got}")
    if ("client_test" in own) != ("client" in own and "x_test" in own):
        raise InputError(
            f"{where}: {client}_test must say whose x_test is where {client} says whose x is, and only "
            f"there; got {got}"
        )
    return own


def _listed(names: Iterable[object]) -> str:
    """The first names of a stranger's arrays, on one line."""
    texts = [str(name)[:40] for name in itertools.islice(names, 8)]
    return ", ".join(text if text.isprintable() else ascii(text) for text in texts)


def _samples(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Bytes as they are, whole numbers of 0 and more as int32, everything else as float32."""
    if array.dtype.kind not in "buif":
        raise InputError(f"{where} holds {array.dtype}; must be numbers")
    if array.ndim < 2 or 0 in array.shape:
        raise InputError(
            f"{where} has shape {array.shape}; must be (N, features), (N, time, features), (N, height, "
            f"width), (N, channels, height, width) or more axes, none of them empty"
        )
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind in "iu" and array.min() >= 0 and array.max() < LARGEST_ID:
        return array.astype(np.int32)
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    _check_finite(array, where)
    return array


def _check_finite(array: NDArray[Any], where: str) -> None:
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bad.any():
        raise InputError(f"{where}: sample {bad.argmax()} is not finite (NaN or too large); clean or drop it")


def _arranged(
    x: NDArray[Any], x_test: NDArray[Any], layout: str, where: str
) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Both parts in one layout and of one type, and that layout."""
    layouts.check_layout(x, layout, f"{where}: x")
    if x_test.ndim != x.ndim:
        _refuse_unlike(x, x_test, where)
    layout = layouts.recognise(x) if layout == "auto" else layout
    x, x_test = layouts.arrange(x, layout), layouts.arrange(x_test, layout)
    if {x.dtype, x_test.dtype} == {np.dtype(np.int32), np.dtype(np.float32)}:  # whole numbers by chance
        x, x_test = x.astype(np.float32), x_test.astype(np.float32)
    return x, x_test, layout


def _targets(array: NDArray[Any], reading: Reading, where: str) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Labels with the names of classes, where they are words; or values (N, outputs)."""
    if array.dtype.kind in "US" and reading.task != "regression" and array.ndim == 1 and len(array):
        words, labels = np.unique(array, return_inverse=True)
        return labels.astype(np.int64), tuple(map(_word, words))
    if reading.task != "regression" and _are_one_hot(array):
        raise InputError(
            f"{where} has shape {array.shape} with a single 1 per sample, a column per class; must be the "
            f"number of each sample's class (y.argmax(1)), or values to predict (data.task = 'regression')"
        )
    if reading.task == "regression" or (reading.task == "auto" and _are_values(array)):
        return _values(array, where), ()
    return _labels(array, where), ()


def _test_targets(
    array: NDArray[Any], y: NDArray[Any], class_names: tuple[str, ...], where: str
) -> NDArray[Any]:
    """The test's targets, which are what the training's are."""
    if y.dtype.kind == "f":
        return _values(array, where)
    if not class_names:
        return _labels(array, where)
    words = [_word(word) for word in array.ravel()] if array.dtype.kind in "US" else []
    if array.ndim != 1 or not words:
        raise InputError(f"{where} is {array.dtype} of shape {array.shape}; must be words, as y is")
    number = {name: label for label, name in enumerate(class_names)}
    if unknown := [word for word in words if word not in number]:
        raise InputError(f"{where}: class {unknown[0][:40]!r} is missing in y; each class needs both")
    return np.array([number[word] for word in words], np.int64)


def _word(word: Any) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


def _are_values(array: NDArray[Any]) -> bool:
    if array.dtype.kind != "f" or array.ndim not in (1, 2) or not array.size:
        return False
    return array.ndim == 2 or not _are_whole(array)


def _are_one_hot(array: NDArray[Any]) -> bool:
    if array.dtype.kind not in "buif" or array.ndim != 2 or array.shape[1] < 2 or not len(array):
        return False
    return bool(((array == 0) | (array == 1)).all() and (array.sum(axis=1) == 1).all())


def _are_whole(array: NDArray[Any]) -> bool:
    return bool(np.isfinite(array).all() and (array == np.floor(array)).all())


def _values(array: NDArray[Any], where: str) -> FloatArray:
    if array.dtype.kind not in "buif" or array.ndim not in (1, 2) or 0 in array.shape:
        raise InputError(
            f"{where} is {array.dtype} of shape {array.shape}; must be numbers, (N,) or (N, outputs)"
        )
    with np.errstate(over="ignore"):
        values = array.astype(np.float32).reshape(len(array), -1)
    _check_finite(values, where)
    return values


def _labels(array: NDArray[Any], where: str) -> IntArray:
    whole = array.dtype.kind in "bui" or (array.dtype.kind == "f" and _are_whole(array))
    right = "must be a whole number 0, 1, 2 ... a sample, or values to predict (data.task = 'regression')"
    if array.ndim != 1 or not whole:
        raise InputError(f"{where} is {array.dtype} of shape {array.shape}; {right}")
    outside = np.flatnonzero((array < 0) | (array.astype(np.float64) >= TOO_LARGE_LABEL))
    if len(outside):
        raise InputError(f"{where}: sample {outside[0]} has label {array[outside[0]]}; {right}")
    return array.astype(np.int64)


def _clients(own: Arrays, where: str) -> tuple[IntArray | None, IntArray | None, tuple[str, ...]]:
    """Whose the samples are, as numbers, and the names of all clients in order."""
    if "client" not in own:
        return None, None, ()
    for key in {"client", "client_test"} & own.keys():
        if own[key].dtype.kind not in "iuUS" or own[key].ndim != 1 or not len(own[key]):
            raise InputError(
                f"{where}: {key} is {own[key].dtype} of shape {own[key].shape}; must be a whole number or a "
                f"word a sample"
            )
    found, client = np.unique(own["client"], return_inverse=True)
    names = tuple(map(_word, found))
    if "client_test" not in own:
        return client.astype(np.int64), None, names
    number = {name: index for index, name in enumerate(names)}
    test_names = list(map(_word, own["client_test"]))
    if strangers := [name for name in test_names if name not in number]:
        raise InputError(
            f"{where}: client {strangers[0][:40]!r} has test but no training samples; drop or add some"
        )
    return client.astype(np.int64), np.array([number[name] for name in test_names], np.int64), names


def _check_clients(
    client: IntArray | None, client_test: IntArray | None, names: tuple[str, ...], where: str
) -> None:
    if client is None or client_test is None:
        return
    lacking = np.flatnonzero(np.bincount(client_test, minlength=len(names)) == 0)
    if len(lacking):
        raise InputError(
            f"{where}: client {names[lacking[0]][:40]!r} has no test samples, on which its model would be "
            f"tested; give some, or drop it"
        )


def _set_aside(y: NDArray[Any], client: IntArray | None, names: tuple[str, ...], where: str) -> NDArray[Any]:
    """Which samples become the test set: every fifth of a class, or of a client."""
    regression = y.dtype.kind == "f"
    labels = np.zeros(len(y), np.int64) if regression else y
    group = labels if client is None else client
    order = np.lexsort((labels, group))
    found, first, counts = np.unique(group[order], return_index=True, return_counts=True)
    if counts.min() < 2:
        few = found[counts.argmin()]
        who = f"class {few}" if client is None else f"client {names[few][:40]!r}"
        what = "the data set" if regression and client is None else who
        raise InputError(
            f"{where}: {what} has only one sample; it needs one for training and one for test, or give "
            f"x_test and y_test"
        )
    rank = np.empty(len(y), dtype=np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(first, counts)
    test: NDArray[np.bool_] = rank % TEST_EVERY == 1
    return test


def _check_lengths(where: str, **arrays: NDArray[Any]) -> None:
    (first, one), (second, other) = arrays.items()
    if len(one) != len(other):
        what = "labels" if second == "y" else "entries"
        raise InputError(f"{where}: {first} has {len(one)} samples, but {second} has {len(other)} {what}")


def _check_alike(
    x: NDArray[Any], y: NDArray[Any], x_test: NDArray[Any], y_test: NDArray[Any], where: str
) -> None:
    _check_lengths(where, x_test=x_test, y_test=y_test)
    if x.shape[1:] != x_test.shape[1:] or x.dtype != x_test.dtype:
        _refuse_unlike(x, x_test, where)
    if y.shape[1:] != y_test.shape[1:]:
        raise InputError(
            f"{where}: y has {y.shape[1]} values per sample, y_test has {y_test.shape[1]}; must be alike"
        )


def _refuse_unlike(x: NDArray[Any], x_test: NDArray[Any], where: str) -> None:
    raise InputError(
        f"{where}: a sample of x is {x.dtype} {x.shape[1:]}, one of x_test is {x_test.dtype} "
        f"{x_test.shape[1:]}; must be alike"
    )


def _check_all_classes(y: IntArray, y_test: IntArray, of_clients: bool, where: str) -> None:
    """Labels without a gap, and each class in both parts; a client's test need not have all classes."""
    trained, tested = np.unique(y), np.unique(y_test)
    gaps = np.flatnonzero(trained != np.arange(len(trained)))
    if len(gaps):
        raise InputError(
            f"{where}: no training sample has label {gaps[0]}, but one has {trained[gaps[0]]}; labels must "
            f"be 0, 1, 2 ... without a gap"
        )
    odd = np.setdiff1d(tested, trained) if of_clients else np.setxor1d(trained, tested)
    if len(odd):
        lacking = "y_test" if odd[0] in trained else "y"
        raise InputError(f"{where}: class {odd[0]} is missing in {lacking}; each class needs both")


def _moments(x: NDArray[Any], channel_axis: int) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation per channel or feature, in chunks: a copy in double precision may not fit."""
    axes = tuple(axis for axis in range(x.ndim) if axis != channel_axis)
    shape = [-1 if axis == channel_axis else 1 for axis in range(x.ndim)]
    unit = 255 if x.dtype == np.uint8 else 1
    mean = x.mean(axis=axes, dtype=np.float64)
    squares = sum(
        np.square(x[i : i + CHUNK] - mean.reshape(shape)).sum(axis=axes) for i in range(0, len(x), CHUNK)
    )
    std = np.sqrt(squares / (x.size / x.shape[channel_axis]))
    constant = std <= np.finfo(np.float32).eps * np.abs(mean)
    return (mean / unit).astype(np.float32), np.where(constant, 1, std / unit).astype(np.float32)
