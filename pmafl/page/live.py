"""The page of a run that still goes on, served on this machine alone, from the run's directory alone.

The server reads what was appended to the records when a page asks for it, and nothing while none does. It
knows nothing of the process that runs: one that is killed, goes on, or is a federation's is the same to it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from pmafl import files
from pmafl.errors import InputError
from pmafl.page import story
from pmafl.page.document import render
from pmafl.page.packing import pack
from pmafl.page.run import head, new_story
from pmafl.runs import FEDERATION, open_run

HOST, PORT, PORTS_TRIED = "127.0.0.1", 8765, 20
RECORDS, SETTINGS = "rounds.jsonl", "settings.toml"


class Follower:
    """The rounds of a directory as they come, in batches that are told once and kept for every page.

    Where the records are not those that were read before, because a run went on from an earlier round or is
    another one, all begins anew under another name.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.name = secrets.token_hex(8)
        self.batches: list[dict[str, Any]] = []
        self.ends: list[int] = [0]  # rounds after each batch
        self._settings = self._settings_now()
        self.run = open_run(self.directory)
        self._offset, self._last = 0, b""
        rows = self._new_rows()
        self._turns = sum(len(row["scheduled"]) for row in rows)
        projected = self._turns / max(len(rows), 1) * self.run.settings.run.rounds
        self._story = new_story(self.run, int(projected) if self._turns > story.MOST_TURNS else 0)
        self._tell(rows)

    def look(self) -> None:
        """Take in what was appended since."""
        if not self._is_the_same():
            self._begin_anew()
            return
        rows = self._new_rows()
        self._turns += sum(len(row["scheduled"]) for row in rows)
        if self._turns > story.MOST_TURNS and self._story.steps.detail == 1:
            self._begin_anew()
        elif rows:
            self._tell(rows)

    def page(self) -> dict[str, Any]:
        """All that a new page needs."""
        first, *more = self.batches
        return {"head": head(self._story), "part": first, "more": more, **self._whence()}

    def since(self, name: str, rounds: int) -> dict[str, Any] | None:
        """What a page that has so many rounds lacks; None where it must be loaded again."""
        if name != self.name or rounds not in self.ends:
            return None
        return {"more": self.batches[self.ends.index(rounds, 1) :], **self._whence()}

    def _whence(self) -> dict[str, Any]:
        finished = self.ends[-1] >= self.run.settings.run.rounds
        return {"records": self.name, "rounds": self.ends[-1], "finished": finished}

    def _tell(self, rows: list[dict[str, Any]]) -> None:
        """Another batch; where it brings what no page shows yet, such as the first test, pages load again."""
        shown = set(self._story.shows)
        if not self.ends[-1]:  # a page of no rounds is not added to
            self.batches, self.ends = [], [0]
        self.batches.append(self._story.tell(rows))
        self.ends.append(self.ends[-1] + len(rows))
        if self._story.shows != shown:
            self.name = secrets.token_hex(8)

    def _is_the_same(self) -> bool:
        """Whether the last line that was read still stands where it stood, under the same settings."""
        if self._settings_now() != self._settings:
            return False
        try:
            with files.open_regular(self.directory / RECORDS) as lines:
                lines.seek(self._offset - len(self._last))
                return lines.read(len(self._last)) == self._last
        except FileNotFoundError:
            return not self._last

    def _settings_now(self) -> list[bytes]:
        """Also what real devices said of themselves, which is written after the settings."""
        found = []
        for name in (SETTINGS, FEDERATION):
            with contextlib.suppress(FileNotFoundError):
                found.append(files.read_bytes(self.directory / name))
        return found

    def _new_rows(self) -> list[dict[str, Any]]:
        """Complete lines behind those that were read; the last may be half written."""
        try:
            with files.open_regular(self.directory / RECORDS) as lines:
                lines.seek(self._offset)
                content = lines.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
        if whole:
            self._offset, self._last = self._offset + sum(map(len, whole)), whole[-1]
        try:
            return [json.loads(line) for line in whole]
        except ValueError as error:
            raise InputError(f"{self.directory / RECORDS} is damaged ({error})") from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, directory: Path) -> None:
        super().__init__((HOST, port), _Answer)
        self.follower = Follower(directory)
        self.lock = threading.Lock()


class _Answer(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """The page, or what it lacks; nothing for pages of other sites that got here by another name."""
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        address = urlsplit(self.path)
        try:
            with self.server.lock:
                self.server.follower.look()
                self._answer(address.path, parse_qs(address.query))
        except (InputError, OSError) as error:  # damaged or gone for now: the page says so and asks again
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", str(error).encode())

    def _answer(self, path: str, query: dict[str, list[str]]) -> None:
        follower = self.server.follower
        if path == "/":
            page = render("run", follower.page(), live=True)
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", page.encode())
        elif path == "/rounds":
            name, rounds = query.get("records", [""])[0], query.get("have", ["0"])[0]
            lacking = follower.since(name, int(rounds) if rounds.isdecimal() else -1)
            if lacking is None:
                self._send(HTTPStatus.RESET_CONTENT, "text/plain", b"")
            else:
                self._send(HTTPStatus.OK, "application/octet-stream", pack(lacking))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # whoever asked has left
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody wants a line for every look."""


def open_server(directory: Path, port: int | None = None) -> _Server:
    """A server of the page of a run directory, at a port or at the first free one from the usual one on."""
    open_run(directory)
    tried = [port] if port is not None else range(PORT, PORT + PORTS_TRIED)
    for number in tried:
        try:
            return _Server(number, directory)
        except OSError:
            continue
    raise InputError(f"port {tried[0]} of this machine is taken; choose another --port")


def address_of(server: _Server) -> str:
    return f"http://{HOST}:{server.server_port}/"


def serve(server: _Server, parent: BinaryIO | None = None) -> None:
    """Answer until interrupted, or until the parent's end of a pipe is closed."""
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent, server), daemon=True).start()
    with server:
        server.serve_forever(poll_interval=0.2)


def _end_with(parent: BinaryIO, server: _Server) -> None:
    parent.read()
    server.shutdown()


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Beside]:
    """A process beside this one that serves the page of a run which this one runs; it ends with this one."""
    beside = Beside(directory)
    try:
        yield beside
    finally:
        beside.end()


class Beside:
    """Starts when it is told that the run has begun: only then there is a directory to read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> str:
        """Start; gives the address of the page."""
        port = free_port()
        command = [sys.executable, "-m", "pmafl", "view", str(self._directory), "--live"]
        command += ["--port", str(port), "--until-closed"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        return f"http://{HOST}:{port}/"

    def end(self) -> None:
        """Stop; the pages keep what they have."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def free_port() -> int:
    """The usual port, so that a page finds a run that goes on, or the next free one."""
    for port in itertools.chain(range(PORT, PORT + PORTS_TRIED), [0]):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # pages of the last server linger
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise InputError("no port of this machine is free")
