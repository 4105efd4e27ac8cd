"""`load`: a data set by name, file or function."""

import difflib
from pathlib import Path

import numpy as np

from pmafl.data.dataset import Dataset
from pmafl.data.fetch import files_of
from pmafl.data.formats import read_cifar, read_idx
from pmafl.data.known import KNOWN, Known
from pmafl.data.own import from_arrays, read_npz
from pmafl.errors import InputError
from pmafl.plugins import load_object


def load(name: str, directory: str = "") -> Dataset:
    """A data set: "mnist", "fashion-mnist", "cifar10", a .npz file or "package.module:callable".

    `directory` is searched first for the files of a known data set, and is where a relative .npz path starts.
    """
    if name in KNOWN:
        return _load_known(KNOWN[name], directory)
    if name.endswith(".npz"):
        path = Path(directory, name).expanduser()
        return from_arrays(name, read_npz(path), str(path))
    if ":" in name:
        return from_arrays(name, _call(name), name)
    near = difflib.get_close_matches(name, KNOWN, n=1)
    raise InputError(
        f"data.dataset = {name!r}: must be {', '.join(KNOWN)}, a .npz file or package.module:callable"
        + (f"; did you mean {near[0]}?" if near else "")
    )


def _call(name: str) -> object:
    function = load_object(name, "data.dataset")
    try:
        return function()
    except Exception as error:
        raise InputError(f"data.dataset = {name!r}: calling it failed: {error}") from error


def _load_known(known: Known, directory: str) -> Dataset:
    files, source = files_of(known, directory)
    if known.kind == "cifar":
        *train, test = (files[name] for name in known.md5)
        (x_train, y_train), (x_test, y_test) = read_cifar(train), read_cifar([test])
    else:
        x_train, y_train, x_test, y_test = (read_idx(files[name]) for name in known.md5)
        x_train, x_test = x_train[:, None], x_test[:, None]
    return Dataset(
        name=known.name,
        x_train=x_train,
        y_train=y_train.astype(np.int64),
        x_test=x_test,
        y_test=y_test.astype(np.int64),
        classes=known.classes,
        mean=np.array(known.mean, np.float32),
        std=np.array(known.std, np.float32),
        class_names=known.class_names,
        source=source,
    )
