"""Where devices stand and what their channels are: placement, path loss, fading, or a user's trace.

The paper's channel model, Section V-A. Randomness comes in as generators, so that placement and the fading of
each round are streams of their own.
"""

import io
import os
import warnings
from pathlib import Path

import numpy as np

from pmafl.arrays import LIMIT_VARIABLE, Unreadable, limit_bytes, open_file, read_npy
from pmafl.errors import InputError
from pmafl.settings import CellSettings
from pmafl.wireless.problem import LARGEST, SMALLEST, Array


def noise_w_per_hz(noise_dbm_per_hz: float) -> float:
    r"""Noise power density in W/Hz: :math:`N_0 = 10^{(\mathrm{dBm} - 30)/10}`."""
    return float(10.0 ** ((noise_dbm_per_hz - 30.0) / 10.0))


def place(cell: CellSettings, devices: int, rng: np.random.Generator) -> Array:
    """Where devices stand, in metres from the server, shape (2, devices).

    Uniform in the square, and drawn again inside the smallest distance.
    """
    half_side_m = cell.side_m / 2
    position_m = np.zeros((2, devices))
    while (close := distances(position_m) < cell.min_distance_m).any():
        position_m[:, close] = rng.uniform(-half_side_m, half_side_m, (2, int(close.sum())))
    return position_m


def distances(position_m: Array) -> Array:
    """To the server, in metres."""
    distance_m: Array = np.hypot(*position_m)
    return distance_m


def path_gain(cell: CellSettings, distance_m: Array) -> Array:
    r"""Mean channel power gain: :math:`h_0 (d_0 / d)^v`."""
    reference_gain = 10.0 ** (cell.reference_gain_db / 10.0)
    with np.errstate(over="ignore"):  # a gain beyond all numbers is refused below
        gain: Array = reference_gain * (cell.reference_distance_m / distance_m) ** cell.path_loss_exponent
    if gain.max() > LARGEST:
        raise InputError(
            f"cell.reference_distance_m = {cell.reference_distance_m:g} and cell.path_loss_exponent = "
            f"{cell.path_loss_exponent:g} give a gain of {gain.max():g}; it must be at most {LARGEST:g}"
        )
    return gain


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
