"""Where devices stand and what their channels are: placement, path loss, fading, or a user's trace.

The paper's channel model, Section V-A. Randomness comes in as generators, so that placement and the fading of
each round are streams of their own.
"""

import io
import os
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmafl.arrays import LIMIT_VARIABLE, Unreadable, limit_bytes, open_file, read_npy
from pmafl.errors import InputError
from pmafl.settings import CellSettings
from pmafl.wireless.problem import LARGEST, SMALLEST

Array = NDArray[np.float64]


def noise_w_per_hz(noise_dbm_per_hz: float) -> float:
    r"""Noise power density in W/Hz: :math:`N_0 = 10^{(\mathrm{dBm} - 30)/10}`."""
    return float(10.0 ** ((noise_dbm_per_hz - 30.0) / 10.0))


def place(cell: CellSettings, devices: int, rng: np.random.Generator) -> Array:
    """Distances to the server in metres: uniform in the square, redrawn inside the smallest distance."""
    half_side_m = cell.side_m / 2
    distance_m = np.zeros(devices)
    while (close := distance_m < cell.min_distance_m).any():
        x, y = rng.uniform(-half_side_m, half_side_m, (2, int(close.sum())))
        distance_m[close] = np.hypot(x, y)
    return distance_m


def path_gain(cell: CellSettings, distance_m: Array) -> Array:
    r"""Mean channel power gain: :math:`h_0 (d_0 / d)^v`."""
    reference_gain = 10.0 ** (cell.reference_gain_db / 10.0)
    gain: Array = reference_gain * (cell.reference_distance_m / distance_m) ** cell.path_loss_exponent
    return gain


def fade(cell: CellSettings, devices: int, rng: np.random.Generator) -> Array:
    """Power gain of small-scale fading in one round, mean 1."""
    if cell.fading == "none":
        return np.ones(devices)
    return rng.standard_exponential(devices)


def fading_levels(cell: CellSettings, count: int) -> Array:
    """The law of the fading as equally likely power gains: the quantiles in the middle of `count` classes."""
    if cell.fading == "none":
        return np.ones(count)
    levels: Array = -np.log1p(-(np.arange(count) + 0.5) / count)
    return levels


def load_trace(path: str, rounds: int, devices: int) -> Array:
    """Channel power gains by round and device from a user's ``.npy`` or CSV file, shape (rounds, devices)."""
    where = f"cell.gain_trace = {path!r}"
    try:
        trace = read_npy(Path(path)) if Path(path).suffix == ".npy" else _read_csv(Path(path))
    except Unreadable as reason:
        raise InputError(f"{where}: {reason}") from None
    if trace.dtype.kind not in "fiu" or trace.ndim != 2 or trace.shape[1] != devices:
        raise InputError(
            f"{where}: holds {trace.dtype} of shape {trace.shape}; needs (rounds, {devices}) numbers"
        )
    if trace.shape[0] < rounds:
        raise InputError(f"{where}: holds {trace.shape[0]} rounds, but run.rounds = {rounds}")
    gains: Array = trace[:rounds].astype(np.float64)
    wrong = ~((gains == 0) | (gains >= SMALLEST) & (gains <= LARGEST))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{where}: gain {gains[row, column]} in round {row}, device {column}; must be 0 (no connection) "
            f"or a number from {SMALLEST:g} to {LARGEST:g}"
        )
    return gains


def _read_csv(path: Path) -> Array:
    with open_file(path) as file:
        if (size_bytes := os.fstat(file.fileno()).st_size) > limit_bytes():
            raise Unreadable(
                f"is {size_bytes / 1e9:.3g} GB of text; set {LIMIT_VARIABLE} to more, or use .npy"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about an empty file, which has too few columns
                lines = io.TextIOWrapper(file, encoding="utf-8")
                trace: Array = np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64)
        except (ValueError, MemoryError) as error:
            raise Unreadable(
                f"not a .npy or CSV file of numbers ({str(error).splitlines()[0][:200]})"
            ) from None
    return trace
