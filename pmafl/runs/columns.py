"""``devices.npy``: what every device scored, spent and had in each evaluated round, a column per quantity.

It is one array in numpy's own format, with an entry per evaluated round and in it an array per quantity:
``numpy.load("devices.npy")["accuracy"]`` has a row per evaluated round and a value per device. Rows are
appended as rounds happen and are durable before the checkpoint that follows them, so a run that goes on has
them all. The header says from the start how many there will be; the file is complete when the run is.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pmafl import files
from pmafl.errors import InputError
from pmafl.rounds import DEVICE_COLUMNS, is_evaluated
from pmafl.settings import RunSettings

COLUMNS = "devices.npy"
DAMAGED = "devices.damaged.npy"
Rows = NDArray[np.void]


class Columns:
    """The file of a run that goes on."""

    def __init__(self, directory: Path, run: RunSettings, done: int) -> None:
        """Keep the rows of the `done` rounds, and expect those of the others."""
        self._path, self._done = directory / COLUMNS, done
        self._expected = done >= run.evaluate_every  # rows of rounds that are done
        self._to_come = sum(is_evaluated(run, number) for number in range(done, run.rounds))
        self._file: files.Appender | None = None

    def add(self, round_index: int, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append a row."""
        row = np.zeros(1, dtype_for(len(columns["accuracy"])))
        row["round"] = round_index
        for name in DEVICE_COLUMNS:
            row[name] = columns[name]
        if self._file is None:
            self._file = self._open(row.dtype)
        self._file.append(row.tobytes())

    def sync(self) -> None:
        """Make all rows durable."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self, dtype: np.dtype[np.void]) -> files.Appender:
        kept = self._kept(dtype)
        header, rows = _header(dtype, len(kept) + self._to_come), kept.tobytes()
        try:
            start = files.read_start(self._path, len(header))
        except OSError:
            start = b""
        if len(kept) and start != header:  # the run was made longer
            files.write_atomically(self._path, header + rows)
        file = files.Appender(self._path, len(header) + len(rows) if len(kept) else 0)
        if not len(kept):
            file.append(header)
        return file

    def _kept(self, dtype: np.dtype[np.void]) -> Rows:
        """The rows of rounds that are done already. A file that is damaged is kept under another name."""
        nothing = np.zeros(0, dtype)
        if not self._done:
            return nothing
        try:
            rows = read_columns(self._path.parent)
        except FileNotFoundError:
            if self._expected:
                print(f"warning: {self._path} is missing: it starts anew", file=sys.stderr)
            return nothing
        except InputError as error:
            reason = str(error)
        else:
            if rows.dtype == dtype:
                return rows[rows["round"] < self._done]
            reason = f"{self._path} has other columns or devices"
        print(f"warning: {reason}: it is kept as {DAMAGED} and starts anew", file=sys.stderr)
        files.move(self._path, self._path.with_name(DAMAGED))
        return nothing


def dtype_for(devices: int) -> np.dtype[np.void]:
    """The type of a row."""
    kinds = {"scheduled": "?"}
    return np.dtype(
        [("round", "<i8"), *((name, kinds.get(name, "<f8"), (devices,)) for name in DEVICE_COLUMNS)]
    )


def read_columns(directory: Path) -> Rows:
    """All rows that are there, of a run that may still go on."""
    path = directory / COLUMNS
    content = files.read_bytes(path)
    file = io.BytesIO(content)
    dtype = _read_header(file, path)
    rest = content[file.tell() :]
    whole: Rows = np.frombuffer(rest[: len(rest) // dtype.itemsize * dtype.itemsize], dtype)
    return whole


def map_columns(directory: Path) -> Rows:
    """The same without reading them: rows come from the disk as they are looked at."""
    path = directory / COLUMNS
    with files.open_regular(path) as file:
        dtype = _read_header(file, path)
        start, end = file.tell(), file.seek(0, os.SEEK_END)
        rows = (end - start) // dtype.itemsize
        if not rows:
            return np.zeros(0, dtype)
        return np.memmap(file, dtype, "r", start, (rows,))


def _read_header(file: BinaryIO, path: Path) -> np.dtype[np.void]:
    """The type of the rows of a file that is at its start; it stands before the first row then."""
    try:
        if npy.read_magic(file) != (1, 0):
            raise ValueError("another version of the format")
        shape, _, dtype = npy.read_array_header_1_0(file)
        if dtype.hasobject or dtype.names is None or "round" not in dtype.names or len(shape) != 1:
            raise ValueError("no rows of columns")
    except (ValueError, SyntaxError) as error:
        raise InputError(f"{path} is damaged ({error}); put it back from a copy of the run") from None
    return dtype


def long_table(rows: Rows) -> dict[str, NDArray[Any]]:
    """The same as columns with an entry per round and device."""
    devices = rows.dtype["accuracy"].shape[0]
    table: dict[str, NDArray[Any]] = {
        "round": np.repeat(rows["round"], devices),
        "device": np.tile(np.arange(devices), len(rows)),
    }
    return table | {
        name: rows[name].reshape(-1) for name in DEVICE_COLUMNS if name in (rows.dtype.names or ())
    }


def _header(dtype: np.dtype[np.void], rows: int) -> bytes:
    file = io.BytesIO()
    about = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows,)}
    npy.write_array_header_1_0(file, about)
    return file.getvalue()
