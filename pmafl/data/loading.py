"""`load`: a data set by name, file or function."""

from pathlib import Path

import numpy as np

from pmafl.data.dataset import Dataset
from pmafl.data.fetch import files_of
from pmafl.data.formats import read_cifar, read_idx
from pmafl.data.known import DATASETS, Known
from pmafl.data.own import from_arrays, read_npz
from pmafl.registry import make


def load(name: str, directory: str = "") -> Dataset:
    """A data set: "mnist", "fashion-mnist", "cifar10", a .npz file or "package.module:callable".

    `directory` is searched first for the files of a known data set, and is where a relative .npz path starts.
    """
    if name.endswith(".npz"):
        path = Path(directory, name).expanduser()
        return from_arrays(name, read_npz(path), str(path))
    entry = DATASETS.find(name)
    if isinstance(entry, Known):
        return _load_known(entry, directory)
    return from_arrays(name, make(entry, f"data.dataset = {name!r}", (), {}), name)


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
