"""Which axis of a user's samples is what, by letters that are usual: N samples, C channels, T time, ...

Networks get images with their channels first and sequences as (time, features). What follows from the number
and the size of the axes is recognised and said; `data.layout` says it where that is wrong.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl.errors import InputError

CHANNELS = (1, 3, 4)  # of images: grey, colours, colours and opacity


def recognise(x: NDArray[Any]) -> str:
    """The letters of an array's axes; "N..." where only the second axis matters, as in a table (N, F)."""
    if x.ndim == 3:
        return "NHW" if x.dtype == np.uint8 else "NTF"
    if x.ndim == 4:
        return "NHWC" if x.shape[3] in CHANNELS and x.shape[1] not in CHANNELS else "NCHW"
    return "N..."


def check_layout(x: NDArray[Any], layout: str, where: str) -> None:
    """Refuse a layout that has another number of axes than the array."""
    if layout != "auto" and x.ndim != len(layout):
        raise InputError(
            f"{where} has shape {x.shape}, but data.layout = {layout!r} has {len(layout)} axes; set it to "
            f'"auto" or to what the axes are'
        )


def arrange(x: NDArray[Any], layout: str) -> NDArray[Any]:
    """The samples as networks take them."""
    if layout == "NHW":
        return x[:, None]
    if layout == "NHWC":
        return np.ascontiguousarray(np.moveaxis(x, 3, 1))
    return x


def channel_axis(layout: str) -> int:
    """The axis along which arranged samples have their own mean and deviation each."""
    return 2 if layout == "NTF" else 1


def in_words(layout: str, shape: tuple[int, ...]) -> str:
    """What was recognised, where it could be something else; `shape` is the array's as it came."""
    sizes = " x ".join(map(str, shape[1:]))
    said = {
        "NTF": f"{sizes} are taken as {shape[1]} points in time with {shape[-1]} features",
        "NHW": f"bytes of {sizes} are taken as grey images",
        "NHWC": f"{sizes} are taken as images with their channels last, and turned to channels first",
    }
    other = {"NTF": "NCT or NHW", "NHW": "NTF", "NHWC": "NCHW"}
    return f"{said[layout]} (data.layout = {layout}, not {other[layout]})" if layout in said else ""
