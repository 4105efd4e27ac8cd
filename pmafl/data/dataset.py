"""A data set in memory.

Arrays are kept as they are stored (bytes for images), once for all devices; `scaled` makes network inputs of
any slice. Which device holds which samples is `partition`'s business.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pmafl.brief import brief

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@brief
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

    def labels(self) -> tuple[IntArray, IntArray]:
        """Training and test labels."""
        return self.y_train, self.y_test

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
