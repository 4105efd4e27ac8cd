"""Stored samples as tensors: rows of a data set, scaled, in the memory layout the model runs fastest in."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Index = NDArray[np.int64]
Part = Literal["all", "extractor", "predictor"]


class Samples(NamedTuple):
    """Model inputs, ready to train on, and their classes or values."""

    x: Tensor
    y: Tensor

    def rows(self, order: Tensor) -> "Samples":
        """The samples at these positions, in the same layout of memory."""
        # index_select copies row by row, which is four times as fast, but makes every layout contiguous.
        x = self.x.index_select(0, order) if self.x.is_contiguous() else self.x[order]
        return Samples(x, self.y[order])

    def chunks(self, size: int) -> "Iterable[Samples]":
        """These samples in their order, at most `size` at a time."""
        if len(self.y) <= size:
            return [self]
        return map(Samples, torch.split(self.x, size), torch.split(self.y, size))


class Inputs:
    """One part of a data set (training or test) that hands out rows as tensors.

    Samples stay as they are stored until asked for, so K devices need no K copies. `scale` turns stored
    values into network inputs.
    """

    def __init__(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        scale: Callable[[NDArray[Any]], NDArray[Any]],
        channels_last: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self._x, self._scale = x, scale
        self._channels_last, self._device = channels_last, device
        self.y = torch.tensor(y, device=device)

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, index: Index) -> Samples:
        """The samples at `index`, ready for the model."""
        values = torch.from_numpy(self._scale(self._x[index]))
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        # Not in numpy's memory: products depend, in their last bits, on its alignment, which varies.
        x = torch.empty_like(values, device=self._device, memory_format=layout).copy_(values)
        return Samples(x, self.y[torch.from_numpy(index).to(self._device)])
