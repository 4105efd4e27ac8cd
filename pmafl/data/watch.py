"""The smartwatch exercises: 10 people with a watch on each arm, 7 shoulder exercises, 6 channels at 50 Hz.

Burns, Leung, Hardisty, Whyne, Henry, McLachlin: Shoulder physiotherapy exercise recognition: machine learning
the inertial signals from a smartwatch. Physiological Measurement 39, 2018. A device is one watch. It has one
recording per exercise, of 19 to 52 s: windows of 2 s, one per second, are cut from its first 70% for
training and from the rest for the test, so no window reaches over the border, and a test window is always
later than all that the watch was trained on.

The file is a pickled dict. It is unpickled only when its checksum is right, and even then nothing can be
named in it but what an array of numbers is made of.
"""

import io
import pickle
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pmafl.data.dataset import FloatArray, IntArray, Pair

FILE = "watch_dataset.npy"
PEOPLE, ARMS = 10, ("left", "right")
EXERCISES = (
    "pendulum", "abduction", "forward elevation", "internal rotation", "external rotation",
    "trapezius extension", "upright row",
)  # fmt: skip
CHANNELS = 6  # acceleration and angular velocity, each along three axes
WINDOW, STEP = 100, 50  # samples: 2 s, and 1 s
TRAIN_TENTHS = 7  # of a recording

# Samples of each recording, a row per watch: what the sizes of a split follow from, without the file.
LENGTHS = np.array([
    [1489, 2455, 2416, 2618, 2462, 2256, 1933], [1398, 2242, 2542, 1853, 2034, 1597, 1804],
    [1368, 2407, 2370, 2532, 2337, 2010, 1883], [1283, 2097, 2182, 1812, 2253, 1578, 1919],
    [1142, 1386, 1339, 1217, 1366, 1209, 1128], [1091, 1208, 1115, 1032, 1107, 963, 983],
    [1141, 1361, 1272, 1176, 1298, 1165, 1110], [1064, 1124, 1130, 970, 1065, 975, 947],
    [1314, 2033, 2119, 2285, 2038, 1840, 1612], [1353, 1872, 1939, 2022, 1855, 1652, 1553],
    [1351, 1951, 2095, 2282, 2043, 1780, 1520], [1283, 1776, 1916, 1957, 1846, 1604, 1523],
    [1380, 2330, 2312, 1987, 2356, 1468, 1841], [1333, 2290, 2429, 2252, 2096, 1472, 1730],
    [1540, 2160, 2197, 1979, 1810, 1474, 1573], [1441, 2158, 2077, 1684, 1704, 1583, 1761],
    [1555, 2217, 2229, 1934, 1773, 1495, 1591], [1472, 2169, 2061, 1695, 1766, 1616, 1621],
    [1356, 2410, 2300, 1944, 2306, 1369, 1856], [1268, 2259, 2458, 2164, 2089, 1472, 1612],
])  # fmt: skip
NAMES = tuple(f"person {person + 1}, {arm} arm" for person in range(PEOPLE) for arm in ARMS)


def window_counts() -> Pair:
    """Training and test windows of every watch and exercise: watches x exercises."""
    border = LENGTHS * TRAIN_TENTHS // 10
    return (border - WINDOW) // STEP + 1, (LENGTHS - border - WINDOW) // STEP + 1


def read_watch(content: bytes) -> tuple[FloatArray, IntArray, FloatArray, IntArray, Pair]:
    """Training windows (N, 100, 6) and their exercises, test windows and theirs, and whose they are."""
    recordings = unpickled(content)
    parts: tuple[list[Any], list[Any]] = [], []
    of_recording = zip(
        recordings["X"], recordings["y"], recordings["subject"], recordings["side"], strict=True
    )
    of_watch = {
        ((int(person) - 1) * len(ARMS) + int(arm), int(exercise)): np.asarray(x)
        for x, exercise, person, arm in of_recording
    }
    for (watch, exercise), x in sorted(of_watch.items(), key=lambda item: item[0]):
        border = len(x) * TRAIN_TENTHS // 10
        for part, stretch in zip(parts, (x[:border], x[border:]), strict=True):
            for start in range(0, len(stretch) - WINDOW + 1, STEP):
                part.append((stretch[start : start + WINDOW], exercise, watch))
    (x_train, y_train, client_train), (x_test, y_test, client_test) = map(_stacked, parts)
    return x_train, y_train, x_test, y_test, (client_train, client_test)


def _stacked(windows: list[Any]) -> tuple[FloatArray, IntArray, IntArray]:
    x, y, client = zip(*windows, strict=True)
    return np.stack(x).astype(np.float32), np.array(y, np.int64), np.array(client, np.int64)


def unpickled(content: bytes) -> dict[str, Any]:
    """The dict in a .npy file that holds nothing else; only what arrays of numbers are made of is allowed."""
    file = io.BytesIO(content)
    if npy.read_magic(file) != (1, 0) or npy.read_array_header_1_0(file)[::2] != ((), np.dtype(object)):
        raise pickle.UnpicklingError("it is not one pickled object")
    recordings = _ArraysOnly(file).load()
    found = recordings.item() if isinstance(recordings, np.ndarray) and recordings.size == 1 else None
    if not isinstance(found, dict):
        raise pickle.UnpicklingError("it holds no dict")
    return found


class _ArraysOnly(pickle.Unpickler):
    """Rebuilds arrays, and refuses every other name before anything of it is imported."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no array") from None


def _empty_array(kind: object, shape: tuple[int, ...], code: bytes) -> NDArray[Any]:
    """An array as numpy begins to rebuild one; its pickled state then gives it shape, type and values."""
    return np.ndarray(shape, np.int8)


def _latin1(text: str, encoding: str) -> bytes:
    """Bytes, as Python 2's protocol spells them."""
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,
}
