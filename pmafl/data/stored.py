"""A user's own files as named arrays: a .npz, a .csv with a header, or a folder with one of them per client.

Files of strangers: nothing in them is run, objects are refused, and what is wrong is one line that names the
file. `own` checks the arrays themselves.
"""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Part:
    """What a file holds: its arrays, and what the features are called where it is a table."""

    arrays: Arrays
    features: tuple[str, ...] = ()


def read_own(path: Path, reading: Reading) -> Arrays:
    """The arrays of a file, or of all files of a folder."""
    if path.is_dir():
        return _read_folder(path, reading)
    try:
        return _read_file(path, reading).arrays
    except arrays.Unreadable as reason:
        raise InputError(f"data.dataset = {str(path)!r}: {reason}") from None


def _read_file(path: Path, reading: Reading) -> _Part:
    if path.suffix == ".npz":
        return _Part(arrays.read_npz(path))
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
    parts: dict[str, _Part] = {}
    for path in paths:
        try:
            part = _aligned(_read_file(path, reading), list(parts.values()))
            _check_client(path.stem, part.arrays, parts, reading)
            _check_lengths(part.arrays, reading)
            _check_alike(part.arrays, next(iter(parts.values()), part).arrays)
        except arrays.Unreadable as reason:
            raise InputError(f"{where}: {path.name} {reason}") from None
        parts[path.stem] = part
    return _joined(parts, reading)


def _joined(parts: dict[str, _Part], reading: Reading) -> Arrays:
    """The arrays of all clients one after the other, and whose the samples are."""
    of_clients = [part.arrays for part in parts.values()]
    joined = {name: np.concatenate([own[name] for own in of_clients]) for name in of_clients[0]}
    for ending in ("", "_test"):
        if f"x{ending}" in joined:
            samples = [len(own[f"x{ending}"]) for own in of_clients]
            joined[f"{reading.client}{ending}"] = np.repeat(np.array(list(parts)), samples)
    return joined


def _aligned(part: _Part, before: list[_Part]) -> _Part:
    """The features in the order of the first table, for the files of strangers need not have one order."""
    wanted = next((other.features for other in before if other.features), part.features)
    if not part.features or part.features == wanted:
        return part
    for name in wanted:
        if name not in part.features:
            raise arrays.Unreadable(f"has no column {name[:40]!r}, but files before it have one")
    for name in part.features:
        if name not in wanted:
            raise arrays.Unreadable(f"has a column {name[:40]!r}, but files before it have none")
    order = [part.features.index(name) for name in wanted]
    return _Part(part.arrays | {"x": part.arrays["x"][:, order]}, wanted)


def _check_client(name: str, own: Arrays, parts: dict[str, _Part], reading: Reading) -> None:
    if name in parts:
        raise arrays.Unreadable(f"would be client {name[:40]!r}, but so is a file before it; rename one")
    for held in (reading.client, f"{reading.client}_test"):
        if held in own:
            raise arrays.Unreadable(f"has {held!r}, but in a folder each file is a client")
    if "x" in own and own["x"].ndim and not len(own["x"]):
        raise arrays.Unreadable("has no samples; add some, or remove the file")


def _check_lengths(own: Arrays, reading: Reading) -> None:
    """Of each file alone: what one lacks, another may have too much."""
    for name, values in own.items():
        if values.ndim == 0:
            raise arrays.Unreadable(f"has one number as {name!r}; must be one entry per sample")
    for ending in ("", "_test"):
        x, y = f"x{ending}", f"{reading.target or 'y'}{ending}"
        if x in own and y in own and len(own[x]) != len(own[y]):
            raise arrays.Unreadable(f"has {len(own[x])} samples in {x}, but {len(own[y])} entries in {y}")


def _check_alike(own: Arrays, first: Arrays) -> None:
    if own.keys() != first.keys():
        raise arrays.Unreadable(f"has {', '.join(own)}, but files before it have {', '.join(first)}")
    for name, values in own.items():
        if first[name].shape[1:] != values.shape[1:]:
            raise arrays.Unreadable(
                f"has {name} of {values.shape[1:]} a sample, but files before it of {first[name].shape[1:]}"
            )
        if (kind := _kind(values)) != (before := _kind(first[name])):
            raise arrays.Unreadable(f"has {kind} in {name}, but files before it have {before}")


def _kind(values: NDArray[Any]) -> str:
    """What must be the same in all files, for joined they would become something else."""
    if values.dtype.kind in "US":
        return "words"
    return "bytes" if values.dtype == np.uint8 and values.ndim > 1 else "numbers"  # labels may be of any type


def _read_table(path: Path, reading: Reading) -> _Part:
    """The columns of a .csv: the target's, the client's if there is one, and all others as features."""
    header, rows = _lines_of(path)
    columns = {name: [row[place].strip() for _, row in rows] for place, name in enumerate(header)}
    target = reading.target or reading.usual_target(TARGETS, columns) or TARGETS[1]
    for setting, name in (("data.target", target), ("data.client", reading.client)):
        if name not in columns and (setting == "data.target" or name != Reading.client):
            shown = ", ".join(list(columns)[:8])[:200]
            raise arrays.Unreadable(f"has no column {name!r} ({setting} names another one); it has {shown}")
        if "" in columns.get(name, ()):
            line = rows[columns[name].index("")][0]
            raise arrays.Unreadable(f"line {line} has nothing in column {name[:40]!r}; fill it, or drop it")
    found = {reading.target or "y": _numbers_or_words(columns.pop(target))}
    if reading.client in columns:
        found[reading.client] = _numbers_or_words(columns.pop(reading.client))
    if not columns:
        raise arrays.Unreadable("has no column beside target and client; there is nothing to learn from")
    found["x"] = np.stack([_numbers(values, name) for name, values in columns.items()], axis=1)
    return _Part(found, tuple(columns))


def _lines_of(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names in the header, and the samples, each with the number of its line in the file."""
    with arrays.open_file(path) as file:
        if os.fstat(file.fileno()).st_size > arrays.limit_bytes():
            raise arrays.Unreadable(f"is larger than {arrays.limit_bytes() / 1e9:g} GB")
        try:
            reader = csv.reader(io.StringIO(file.read().decode("utf-8-sig")), strict=True)
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if row]
        except (UnicodeDecodeError, csv.Error) as error:
            raise arrays.Unreadable(f"not a readable .csv file ({error})") from None
    if not rows or len(set(header)) < len(header):
        raise arrays.Unreadable("must have a header with a name for each column, all different, and samples")
    for number, (_, row) in enumerate(rows, start=1):
        if len(row) != len(header):
            raise arrays.Unreadable(f"sample {number} has {len(row)} values; the header has {len(header)}")
    return header, rows


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
