"""A data set in memory.

Arrays are kept as they are stored (bytes for images, whole numbers for token ids), once for all devices;
`scaled` makes network inputs of any slice. Which device holds which samples is `partition`'s business.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pmafl.brief import brief
from pmafl.errors import InputError

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
Pair = tuple[IntArray, IntArray]  # of every training and of every test sample
Scaling = Literal["standardised", "unit", "tokens"]


@dataclass(frozen=True)
class Reading:
    """How a user's own data are to be read; the fields are settings of the same names in ``[data]``."""

    layout: str = "auto"
    task: str = "auto"
    target: str = ""
    client: str = "client"

    def __post_init__(self) -> None:
        target = self.target or "y"
        names = [f"{name}{ending}" for name in ("x", target, self.client) for ending in ("", "_test")]
        if len(set(names)) < len(names):
            raise InputError(
                f"data.target = {target!r}, data.client = {self.client!r}: must differ from each other and "
                f"from 'x', which are the features; rename a column or an array"
            )

    def usual_target(self, names: Iterable[str], columns: Container[str]) -> str:
        """The first of some names that is a column, and not that of clients; empty where none is."""
        return next((name for name in names if name in columns and name != self.client), "")


@brief
@dataclass(frozen=True)
class Dataset:
    """Samples of any shape as uint8, int32 or float32, with labels 0 ... classes - 1, or with values.

    Attributes:
        y_train, y_test: labels (N,) as int64; where values are to be predicted, they are float32 (N, outputs)
            and `classes` is 0.
        mean, std: of the training samples, along `channel_axis` of x; of bytes they are in units of 255.
        target_mean, target_std: of the training values, one for each output; empty where there are classes.
        client_train, client_test: whose a sample is, as a number in `client_names`; None where nobody's.
        notes: what was recognised in a user's own arrays, for people.
    """

    name: str
    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    classes: int
    mean: FloatArray
    std: FloatArray
    class_names: tuple[str, ...]
    source: str = field(compare=False)
    channel_axis: int = 1
    client_train: IntArray | None = None
    client_test: IntArray | None = None
    client_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    target_mean: tuple[float, ...] = ()
    target_std: tuple[float, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.x_train.shape[1:]

    @property
    def regression(self) -> bool:
        """Whether values are to be predicted, not classes."""
        return self.y_train.dtype.kind == "f"

    @property
    def outputs(self) -> int:
        """How many numbers a network has to give per sample."""
        return int(self.y_train.shape[1]) if self.regression else self.classes

    def vocabulary(self, inputs: Scaling = "standardised") -> int:
        """Whole numbers in x, which may be token ids, are below this; 0 where x holds anything else.

        Bytes are pixels unless `inputs` says that they are tokens.
        """
        if self.x_train.dtype != np.int32 and not (inputs == "tokens" and self.x_train.dtype == np.uint8):
            return 0
        return int(max(self.x_train.max(), self.x_test.max())) + 1

    def labels(self) -> Pair:
        """Training and test labels; where there are values, all samples are of one class."""
        if self.regression:
            return np.zeros(self.train_samples, np.int64), np.zeros(self.test_samples, np.int64)
        return self.y_train, self.y_test

    def owners(self) -> Pair | None:
        """Whose the training and test samples are."""
        if self.client_train is None or self.client_test is None:
            return None
        return self.client_train, self.client_test

    @property
    def train_samples(self) -> int:
        return len(self.y_train)

    @property
    def test_samples(self) -> int:
        return len(self.y_test)

    def targets(self, y: NDArray[Any]) -> NDArray[Any]:
        """What a network is to give: labels as they are, values with mean 0 and deviation 1."""
        if not self.regression:
            return y
        result = (y - np.array(self.target_mean, np.float32)) / np.array(self.target_std, np.float32)
        return result.astype(np.float32)

    def scaled(self, x: NDArray[Any], inputs: Scaling = "standardised") -> NDArray[Any]:
        """Samples as network inputs: bytes become 0 to 1; "standardised" then has mean 0 and deviation 1.

        "tokens" are whole numbers, and stay what they are.
        """
        if inputs == "tokens":
            return x.astype(np.int64)
        result = x.astype(np.float32)
        if x.dtype == np.uint8:
            result /= 255
        if inputs == "standardised":
            along_channels = [1] * x.ndim
            along_channels[self.channel_axis] = -1
            result -= self.mean.reshape(along_channels)
            result /= self.std.reshape(along_channels)
        return result
