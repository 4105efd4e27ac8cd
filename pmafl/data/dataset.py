"""A data set in memory, and `load`, which finds or fetches one by name.

Arrays are kept as they are stored (bytes for images), once for all devices; `scaled` makes network inputs of
any slice. Which device holds which samples is `partition`'s business.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pmafl.data.fetch import files_of
from pmafl.data.formats import read_cifar, read_idx
from pmafl.data.known import KNOWN, Known
from pmafl.errors import InputError

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Images (N, C, H, W) or feature vectors (N, F), as uint8 or float32, with labels 0 ... classes - 1.

    `mean` and `std` are of the training samples, per channel or feature; of bytes they are in units of 255.
    """

    name: str
    x_train: NDArray[Any]
    y_train: IntArray
    x_test: NDArray[Any]
    y_test: IntArray
    classes: int
    mean: FloatArray
    std: FloatArray
    class_names: tuple[str, ...]
    source: str = field(compare=False)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.x_train.shape[1:]

    @property
    def train_samples(self) -> int:
        return len(self.y_train)

    @property
    def test_samples(self) -> int:
        return len(self.y_test)

    def scaled(self, x: NDArray[Any], inputs: Literal["standardised", "unit"] = "standardised") -> FloatArray:
        """Samples as network inputs: bytes become 0 to 1; "standardised" then has mean 0 and deviation 1."""
        result = x.astype(np.float32)
        if x.dtype == np.uint8:
            result /= 255
        if inputs == "standardised":
            along_channels = (-1, *(1,) * (x.ndim - 2))
            result -= self.mean.reshape(along_channels)
            result /= self.std.reshape(along_channels)
        return result


def load(name: str, directory: str = "") -> Dataset:
    """A data set: "mnist", "fashion-mnist", "cifar10", a .npz file or "package.module:callable"."""
    if name in KNOWN:
        return _load_known(KNOWN[name], directory)
    raise InputError(f"{name}")


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
