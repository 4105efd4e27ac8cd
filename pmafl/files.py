"""Files that survive a power cut, and the lock that keeps two processes from writing one run.

A file is on disk when its content and the folder that names it were both synced. Everything that a run writes
goes through these few functions and through `os` alone, so that a test can cut the power after any of them.
What only one kind of system has stands here and nowhere else. Windows has no folders that could be synced.
"""

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pmafl.errors import InputError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".lock"
_LEFTOVER = re.compile(
    r"\.((settings\.toml|page\.html|(run|federation|summary)\.json|rounds.*|devices.*)|"
    r"(state|heads)-\d+\.safetensors)\.\d+"
)

# Bytes as they are; no waiting for whoever writes into a pipe; no symbolic links.
_BINARY, _AT_ONCE, _NO_LINK = (getattr(os, f"O_{name}", 0) for name in ("BINARY", "NONBLOCK", "NOFOLLOW"))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by new content, or leave it as it is, also when the power fails: never half of it."""
    write_file(path, content)
    sync_folder(path.parent)


def write_file(path: Path, content: bytes) -> None:
    """The same, but only after `sync_folder` it is certain that the new content has the name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        remove(temporary)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    finally:
        remove(temporary)


def remove(path: Path) -> None:
    """Delete a file, which may be gone already; nobody waits until that is durable."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, durably, where they are not there yet."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):  # another process was faster; a file is noticed below
        os.mkdir(folder)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(folder))
    sync_folder(folder.parent)


def set_aside(path: Path, folder: Path) -> None:
    """Move a file out of the way without losing it."""
    make_folder(folder)
    move(path, folder / path.name)


def move(path: Path, other: Path) -> None:
    """Give a file another name, durably."""
    os.replace(path, other)
    sync_folder(other.parent)
    sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Delete the half-written files that killed processes left; only for who holds the run's lock."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if _LEFTOVER.fullmatch(name):
                remove(folder / name)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; anything else (a folder, a pipe) is an error, not a wait."""
    descriptor = os.open(path, os.O_RDONLY | _AT_ONCE | _BINARY)
    try:
        _check_regular(descriptor, path)
    except OSError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def read_bytes(path: Path) -> bytes:
    """All of a regular file."""
    with open_regular(path) as file:
        return file.read()


def read_start(path: Path, count: int) -> bytes:
    """The first bytes of a regular file, at most `count` of them."""
    with open_regular(path) as file:
        return file.read(count)


def read_end(path: Path, count: int) -> bytes:
    """The last bytes of a regular file, at most `count` of them."""
    with open_regular(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()


class Appender:
    """A file that grows by whole pieces; it is no symbolic link, and is made where there is none."""

    def __init__(self, path: Path, keep_bytes: int) -> None:
        self._descriptor = _open_own(path, os.O_WRONLY)
        sync_folder(path.parent)  # syncing the file alone would not save the name of a new one
        if os.fstat(self._descriptor).st_size != keep_bytes:
            os.ftruncate(self._descriptor, keep_bytes)
        os.lseek(self._descriptor, keep_bytes, os.SEEK_SET)

    def append(self, content: bytes) -> None:
        """Hand over to the system: safe from a killed process, but not yet from a power cut."""
        _write_all(self._descriptor, content)

    def sync(self) -> None:
        """Make all that was appended durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


@contextlib.contextmanager
def locked(directory: Path, wait: bool = False) -> Iterator[None]:
    """Keep two processes from writing one run; the lock goes with the process, however it ends."""
    descriptor = _open_own(directory / LOCK, os.O_RDWR)
    try:
        _lock(descriptor, wait)
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        raise InputError(f"{directory}: another process is running it") from None
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> None:
    """Until the descriptor is closed; raises at once, or waits, while another process has the lock."""
    if sys.platform == "win32":
        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLK:  # it waited for ten seconds, and gives up by itself
                    raise
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _open_own(path: Path, access: int) -> int:
    """Open or make a file of the run's own: nothing is truncated, and a symbolic link is not followed."""
    is_link = InputError(f"{path} is a symbolic link; a run writes only to files of its own")
    if not _NO_LINK and path.is_symlink():
        raise is_link
    try:
        descriptor = os.open(path, access | os.O_CREAT | _NO_LINK | _AT_ONCE | _BINARY, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise is_link from None
        raise
    try:
        _check_regular(descriptor, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, f"{path.name} is not a regular file")


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
