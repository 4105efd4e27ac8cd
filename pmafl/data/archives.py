"""Archives of strangers, unpacked in memory and within limits. Nothing in them is written to disk or run.

Only the base names of members count, so a path inside an archive leads nowhere; links and other special
members are passed over.
"""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

MOST_MEMBERS = 10_000
LARGEST_BYTES = 1_000_000_000  # unpacked; the largest known data set has 184 MB
CHUNK_BYTES = 1 << 20


class Unusable(Exception):
    """A place does not give the whole data set; the message says why."""

    def __init__(self, reason: str) -> None:
        """Takes a reason in the words of a server or a client, and makes a line of it that can be printed."""
        super().__init__("".join(letter if letter.isprintable() else " " for letter in reason)[:200])


def unpacked(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files inside an archive by base name; any other file is itself."""
    try:
        if name.endswith((".tar.gz", ".tgz")):
            yield from _tar_members(name, gunzip(content))
        elif name.endswith(".tar"):
            yield from _tar_members(name, content)
        elif name.endswith(".whl"):
            yield from _zip_members(name, content)
        else:
            yield name, content
    except Unusable:
        raise
    except Exception as error:  # what the bytes of a stranger set off in a parser is not one of a few
        raise Unusable(f"{name} is damaged or incomplete ({error or type(error).__name__})") from None


def gunzip(content: bytes) -> bytes:
    """The unpacked content of a gzip file; raises what `gzip` does where it is damaged."""
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        while part := file.read(CHUNK_BYTES):
            _check_size(size := size + len(part))
            parts.append(part)
    return b"".join(parts)


GUNZIP_ERRORS = (OSError, EOFError, zlib.error)  # what `gunzip` raises for damaged content


def _tar_members(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    size = 0
    # Opened as what it is: another compression would be unpacked without a limit.
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for count, member in enumerate(archive, start=1):
            _check_count(name, count)
            _check_size(size := size + max(member.size, 0))
            if member.isreg() and (inside := archive.extractfile(member)):
                yield _base(member.name), inside.read()


def _zip_members(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        _check_count(name, len(members))
        _check_size(sum(member.file_size for member in members))
        for member in members:
            if not member.is_dir():
                yield _base(member.filename), archive.read(member)  # never more than its declared size


def _base(path: str) -> str:
    return PurePosixPath(path).name


def _check_count(name: str, count: int) -> None:
    if count > MOST_MEMBERS:
        raise Unusable(f"{name} holds more than {MOST_MEMBERS} files")


def _check_size(size_bytes: int) -> None:
    if size_bytes > LARGEST_BYTES:
        raise Unusable(f"it unpacks to more than {LARGEST_BYTES / 1e6:.0f} MB")
