"""`load`: a data set by name, file, folder or function."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl.data import watch
from pmafl.data.dataset import Dataset, Reading
from pmafl.data.fetch import files_of
from pmafl.data.formats import read_cifar, read_idx
from pmafl.data.known import DATASETS, Known
from pmafl.data.own import AS_SETTINGS_SAY, from_arrays
from pmafl.data.stored import read_own
from pmafl.data.watch import read_watch
from pmafl.paths import is_path
from pmafl.registry import make


def load(name: str, directory: str = "", reading: Reading = AS_SETTINGS_SAY) -> Dataset:
    """A data set: "mnist", "fashion-mnist", "cifar10", "watch", a file, a folder or "module:callable".

    `directory` is searched first for the files of a known data set, and is where a relative path starts.
    `reading` says how a user's own data are to be understood.
    """
    if is_path(name):
        path = Path(directory, name).expanduser()
        return from_arrays(name, read_own(path, reading), str(path), reading=reading)
    entry = DATASETS.find(name)
    if isinstance(entry, Known):
        return _load_known(entry, directory)
    return from_arrays(name, make(entry, f"data.dataset = {name!r}", (), {}), name, reading=reading)


def _load_known(known: Known, directory: str) -> Dataset:
    files, source = files_of(known, directory)
    owners = None
    parts: Iterable[NDArray[Any]]
    if known.kind == "cifar":
        *train, test = (files[name] for name in known.checksums)
        parts = (*read_cifar(train), *read_cifar([test]))
    elif known.kind == "watch":
        *parts, owners = read_watch(files[watch.FILE])
    else:
        parts = (read_idx(files[name]) for name in known.checksums)
    x_train, y_train, x_test, y_test = parts
    if known.kind == "idx":
        x_train, x_test = x_train[:, None], x_test[:, None]
    client_train, client_test = owners or (None, None)
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
        channel_axis=2 if known.kind == "watch" else 1,
        client_train=client_train,
        client_test=client_test,
        client_names=known.client_names,
    )
