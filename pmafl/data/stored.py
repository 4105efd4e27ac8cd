"""A user's own files as named arrays: a .npz, a .csv with a header, or a folder with one of them per client.

Files of strangers: nothing in them is run, objects are refused, and what is wrong is one line that names the
file. `own` checks the arrays themselves.
"""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl import arrays
from pmafl.data.dataset import Reading
from pmafl.errors import InputError

KINDS = (".npz", ".csv")
TARGETS = ("y", "label", "target")  # a column of a table that is called so is what is to be predicted
Arrays = dict[str, NDArray[Any]]


def read_own(path: Path, reading: Reading) -> Arrays:
    """The arrays of a file, or of all files of a folder."""
    if path.is_dir():
        return _read_folder(path, reading)
    try:
        return _read_file(path, reading)
    except arrays.Unreadable as reason:
        raise InputError(f"data.dataset = {str(path)!r}: {reason}") from None


def _read_file(path: Path, reading: Reading) -> Arrays:
    if path.suffix == ".npz":
        return arrays.read_npz(path)
    if path.suffix == ".csv":
        return _read_table(path, reading)
    raise arrays.Unreadable("is neither a .npz or .csv file nor a folder that is there")


def _read_folder(folder: Path, reading: Reading) -> Arrays:
    """The samples of all files, each a client that is called like its file."""
    where = f"data.dataset = {str(folder)!r}"
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {error.strerror}") from None
    if not paths:
        raise InputError(f"{where}: is empty; it must hold a .npz or .csv file per client")
    client, parts = reading.client, dict[str, list[NDArray[Any]]]()
    for path in paths:
        try:
            own = _read_file(path, reading)
            if client in own or f"{client}_test" in own:
                raise arrays.Unreadable(f"has {client!r}, but in a folder each file is a client")
            if parts and (own.keys() | {client, f"{client}_test"}) != parts.keys() | {
                client,
                f"{client}_test",
            }:
                before = ", ".join(name for name in parts if not name.startswith(client))
                raise arrays.Unreadable(f"has {', '.join(own)}, but files before it have {before}")
            _check_shapes(own, parts)
        except arrays.Unreadable as reason:
            raise InputError(f"{where}: {path.name} {reason}") from None
        samples = {client: len(own.get("x", ())), f"{client}_test": len(own.get("x_test", ()))}
        own |= {name: np.full(count, path.stem) for name, count in samples.items() if count}
        for name, values in own.items():
            parts.setdefault(name, []).append(values)
    return {name: np.concatenate(values) for name, values in parts.items()}


def _check_shapes(own: Arrays, parts: dict[str, list[NDArray[Any]]]) -> None:
    for name, values in own.items():
        if values.ndim == 0:
            raise arrays.Unreadable(f"has one number as {name!r}; must be one entry per sample")
        if name not in parts:
            continue
        first = parts[name][0]
        if first.shape[1:] != values.shape[1:]:
            raise arrays.Unreadable(
                f"has {name} of {values.shape[1:]} a sample, but files before it of {first.shape[1:]}"
            )
        if _kind(first) != _kind(values):
            raise arrays.Unreadable(f"has {_kind(values)} in {name}, but files before it have {_kind(first)}")


def _kind(values: NDArray[Any]) -> str:
    """What must be the same in all files, for joined they would become something else."""
    if values.dtype.kind in "US":
        return "words"
    return "bytes" if values.dtype == np.uint8 and values.ndim > 1 else "numbers"  # labels may be of any type


def _read_table(path: Path, reading: Reading) -> Arrays:
    """The columns of a .csv: the target's, the client's if there is one, and all others as features."""
    with arrays.open_file(path) as file:
        if os.fstat(file.fileno()).st_size > arrays.limit_bytes():
            raise arrays.Unreadable(f"is larger than {arrays.limit_bytes() / 1e9:g} GB")
        try:
            lines = list(csv.reader(io.StringIO(file.read().decode("utf-8-sig")), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise arrays.Unreadable(f"not a readable .csv file ({error})") from None
    header, rows = (lines[0] if lines else []), [line for line in lines[1:] if line]
    if not rows or len(set(header)) < len(header):
        raise arrays.Unreadable("must have a header with a name for each column, all different, and samples")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise arrays.Unreadable(f"sample {number} has {len(row)} values; the header has {len(header)}")
    columns = {name.strip(): [row[place].strip() for row in rows] for place, name in enumerate(header)}
    target = reading.target or next((name for name in TARGETS if name in columns), TARGETS[1])
    for setting, name in (("data.target", target), ("data.client", reading.client)):
        if name not in columns and (setting == "data.target" or name != Reading.client):
            shown = ", ".join(list(columns)[:8])[:200]
            raise arrays.Unreadable(f"has no column {name!r} ({setting} names another one); it has {shown}")
    found = {reading.target or "y": _numbers_or_words(columns.pop(target))}
    if reading.client in columns:
        found[reading.client] = _numbers_or_words(columns.pop(reading.client))
    if not columns:
        raise arrays.Unreadable("has no column beside target and client; there is nothing to learn from")
    found["x"] = np.stack([_numbers(values, name) for name, values in columns.items()], axis=1)
    return found


def _numbers(values: Sequence[str], name: str) -> NDArray[np.float32]:
    try:
        return np.array(values, np.float32)
    except ValueError:
        for number, value in enumerate(values, start=1):
            if not _is_number(value):
                raise arrays.Unreadable(
                    f"sample {number} has {value[:40]!r} in column {name[:40]!r}; features must be numbers"
                ) from None
        raise


def _numbers_or_words(values: Sequence[str]) -> NDArray[Any]:
    """Whole numbers where all are, else numbers where all are, else words."""
    for kind in (np.int64, np.float64):
        try:
            return np.array([kind(value) for value in values])
        except (ValueError, OverflowError):
            continue
    return np.array(values)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
