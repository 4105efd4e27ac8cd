"""Reads `.npy` and `.npz` files that nobody has vouched for.

What a file declares (the directory of the archive, the headers of its arrays) is checked before anything is
unpacked, and no more is ever read than it declared. Objects, which could run code, are refused. Whatever is
wrong with a file is one `Unreadable` line; the caller says which setting named it.
"""

import math
import os
import stat
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pmafl.errors import InputError

LIMIT_VARIABLE = "PMAFL_MAX_GB"  # the environment variable that raises the limit
DEFAULT_LIMIT_GB = 4.0  # of one file once it is unpacked
CHUNK_BYTES = 1 << 20
PLAIN_KINDS = "buifcSU"  # numbers and text; the rest is refused before it is read

AnyArray = NDArray[Any]  # of whatever type a file holds


class Unreadable(Exception):
    """A file is not what its name says; the message says why, in one line."""


def limit_bytes() -> int:
    """How large a file may be once it is unpacked."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        limit_gb = float(text or DEFAULT_LIMIT_GB)
    except ValueError:
        limit_gb = math.nan
    if not 0 < limit_gb < math.inf:
        raise InputError(f"{LIMIT_VARIABLE} = {text!r}: must be a number of gigabytes greater than 0")
    return int(limit_gb * 1e9)


def open_file(path: Path) -> IO[bytes]:
    """A regular file, opened for reading; pipes and devices could be read for ever."""
    try:
        if path.exists() and not path.is_file():
            raise Unreadable("is not a file")
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a name that no file can have
        raise Unreadable(f"cannot be read: {error}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Unreadable("is not a file")
    return file


def in_order(array: AnyArray) -> AnyArray:
    """The same values as safetensors writes them: it takes the bytes of any array for those of C's order."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def read_npy(path: Path) -> AnyArray:
    """The array of a `.npy` file."""
    with open_file(path) as file:
        try:
            return _read_array(file, os.fstat(file.fileno()).st_size)
        except (Unreadable, InputError):
            raise
        except Exception as error:  # what the bytes of a stranger set off in a parser is not one of a few
            raise Unreadable(f"not a readable .npy file of plain numbers ({_first_line(error)})") from None


def read_npz(path: Path) -> dict[str, AnyArray]:
    """The arrays of a `.npz` file by name."""
    with open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive)
        except (Unreadable, InputError):
            raise
        except Exception as error:
            raise Unreadable(f"not a readable .npz file of plain arrays ({_first_line(error)})") from None


def _read_archive(archive: zipfile.ZipFile) -> dict[str, AnyArray]:
    members = archive.infolist()
    _check_size(sum(member.file_size for member in members))
    arrays: dict[str, AnyArray] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise Unreadable(f"holds {member.filename[:60]!r}, which is not an array (.npy)")
        if name in arrays:
            raise Unreadable(f"holds two arrays named {name[:60]!r}")
        if member.flag_bits & 1:
            raise Unreadable("is encrypted; store it without a password")
        with archive.open(member) as file:
            arrays[name] = _read_array(file, member.file_size, f"array {name[:60]!r} ")
    return arrays


def _read_array(file: IO[bytes], size_bytes: int, which: str = "") -> AnyArray:
    """An array of which so many bytes are there, its header included, or said to be there."""
    shape, fortran_order, dtype = _read_header(file)
    if dtype.kind not in PLAIN_KINDS or dtype.itemsize == 0:
        way_out = "; words are stored by astype(str)" if dtype.kind == "O" else ""
        raise Unreadable(f"{which}holds {str(dtype)[:60]}; must be plain numbers{way_out}")
    if any(length < 0 for length in shape):
        raise Unreadable(f"claims a shape of {str(shape)[:60]}")
    wanted_bytes = math.prod(shape) * dtype.itemsize
    _check_size(wanted_bytes)
    if file.tell() + wanted_bytes > size_bytes:
        raise Unreadable(
            f"claims {dtype} of shape {str(shape)[:60]}, {wanted_bytes} bytes, but holds "
            f"{max(size_bytes - file.tell(), 0)}; it is damaged or incomplete"
        )
    content, done = np.empty(wanted_bytes, np.uint8), 0
    while done < wanted_bytes:
        chunk = file.read(min(CHUNK_BYTES, wanted_bytes - done))
        if not chunk:
            raise Unreadable(f"ends after {done} of {wanted_bytes} bytes; it is damaged or incomplete")
        content[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
        done += len(chunk)
    if file.read(1):  # reading to the end also checks the checksum of an archive's member
        raise Unreadable(f"has bytes left over after its {dtype} of shape {shape}; it is damaged")
    return content.view(dtype).reshape(shape, order="F" if fortran_order else "C")


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers of old versions
        version = npy.read_magic(file)
        if version == (1, 0):
            return npy.read_array_header_1_0(file)
        if version == (2, 0):
            return npy.read_array_header_2_0(file)
    raise Unreadable(f"is of version {version[0]}.{version[1]} of the format; must be 1.0 or 2.0")


def _check_size(size_bytes: int) -> None:
    if size_bytes > (limit := limit_bytes()):
        raise Unreadable(
            f"needs {size_bytes / 1e9:.3g} GB of memory, and the limit is {limit / 1e9:g}; if it should, "
            f"set the environment variable {LIMIT_VARIABLE} to more"
        )


def _first_line(error: Exception) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0][:200]
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def can_be_saved(dtype: np.dtype[Any]) -> bool:
    """Whether a checkpoint takes arrays of this type: numbers and truth values of at most 64 bits."""
    return dtype.kind in "bfiu" and dtype.itemsize <= 8
