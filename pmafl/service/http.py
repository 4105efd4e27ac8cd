"""The scheduler over HTTP, for a radio controller in any language; needs the extra `serve`.

`POST /schedule` takes a problem and gives a decision, as `pmafl schedule` does; with `?session=NAME` the
policy's memory is kept from one question to the next. Decisions are made by a pool of processes, so health
and metrics answer at once however long one takes. Strangers may send anything: bodies are limited in size and
time, headers too, and what waits is limited in number.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from pmafl import __version__
from pmafl.errors import InputError
from pmafl.scheduling import POLICIES, definitions, schema
from pmafl.service.pool import Busy, Died, Overdue, Pool
from pmafl.service.replies import Asked, Memory, Reply
from pmafl.settings import parse_assignment

STATUS = {"decision": 200, "input": 400, "no-answer": 422, "internal": 500}
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # of the histogram of decisions
SESSION = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_BUFFERED = 2**28  # bytes of all bodies together
READ_PAST = 2**26  # bytes beyond the limit on a body
CONNECTIONS = 1000
SLACK_S = 30.0  # to send an answer, beyond the limits on receiving and deciding
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")

ASGI = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True)
class Limits:
    """What a client may use. waiting: questions beyond those being decided."""

    workers: int = 2
    waiting: int = 64
    body_bytes: int = 8 * 2**20
    body_s: float = 10.0
    decision_s: float = 30.0
    sessions: int = 100
    session_idle_s: float = 3600.0


class Refused(Exception):
    """An answer other than a decision."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(eq=False)
class Session:
    """A policy's memory between the questions of one client."""

    asked: Asked
    memory: Memory = field(default_factory=Memory)
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Service:
    """What stands behind the endpoints: the pool, the sessions, the counters."""

    def __init__(self, default: Asked, limits: Limits) -> None:
        self.default, self.limits = default, limits
        self.pool = Pool(limits.workers, limits.waiting, limits.decision_s)
        self.sessions: dict[str, Session] = {}
        self.started = time.time()
        self.answers: Counter[int] = Counter()
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.seconds = 0.0
        self.buffered = 0  # bytes of bodies

    def asked(self, policy: str | None, option: list[str], seed: int | None, reasons: bool) -> Asked:
        """What a request asks for. A path to code of the server's own is for its owner alone to name."""
        default = self.default
        if policy is None or policy == default.policy:
            options = dict(map(parse_assignment, option)) if option else default.options
        elif policy in POLICIES:
            options = dict(map(parse_assignment, option))
        else:
            raise InputError(f"policy {policy!r:.60}: there is no such policy; choose {', '.join(POLICIES)}")
        asked = Asked(policy or default.policy, options, default.seed if seed is None else seed, reasons)
        asked.find()
        return asked

    async def answer(self, asked: Asked, session_name: str | None, body: bytes) -> Reply:
        """The reply to a question, with the session's memory if it has one."""
        if session_name is None:
            return await self._decide(asked, Memory(), body)
        session = self._session(session_name, asked)
        async with session.lock:
            found = await self._decide(asked, session.memory, body)
            session.memory, session.used = found.memory, time.monotonic()
            return found

    async def _decide(self, asked: Asked, memory: Memory, body: bytes) -> Reply:
        began = time.monotonic()
        try:
            return await self.pool.reply(asked, memory, body)
        except Busy:
            raise Refused(503, "too many questions are waiting; try again", retry_after="1") from None
        except Overdue:
            message = f"the decision took more than {self.pool.limit_s:g} s; ask about fewer devices"
            raise Refused(504, message) from None
        except Died:
            raise Refused(500, "the process that decided ended; ask about fewer devices") from None
        finally:
            taken = time.monotonic() - began
            self.seconds += taken
            self.buckets[sum(taken > bucket for bucket in BUCKETS_S)] += 1

    def _session(self, name: str, asked: Asked) -> Session:
        if not SESSION.fullmatch(name):
            raise Refused(400, "a session's name has 1 to 64 letters, digits, dots, dashes or underscores")
        now = time.monotonic()
        if name not in self.sessions:
            for other, session in list(self.sessions.items()):
                if now - session.used > self.limits.session_idle_s and not session.lock.locked():
                    del self.sessions[other]
            if len(self.sessions) >= self.limits.sessions:
                message = f"there are {len(self.sessions)} sessions, as many as may; DELETE one"
                raise Refused(503, message, retry_after="60")
            self.sessions[name] = Session(asked)
        session = self.sessions[name]
        if session.asked != asked:
            raise Refused(409, f"session {name} began with another policy, option or seed")
        return session

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """A request's body, within the limits of size and time."""
        most, seen, held = self.limits.body_bytes, 0, 0
        chunks: list[bytes] = []
        too_large = Refused(413, f"the body has more than {most} bytes", connection="close")
        announced = request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced[:20]) > most + READ_PAST:
            raise too_large
        try:
            async with asyncio.timeout(self.limits.body_s):
                async for chunk in request.stream():
                    seen += len(chunk)
                    if seen > most:  # who is still sending would not hear the answer: some of it is read past
                        chunks.clear()
                        if seen > most + READ_PAST:
                            raise too_large
                        continue
                    held += len(chunk)
                    self.buffered += len(chunk)
                    chunks.append(chunk)
                    if self.buffered > MOST_BUFFERED:
                        raise Refused(503, "too much is being received; try again", connection="close")
            if seen > most:
                raise too_large
            yield b"".join(chunks)
        except TimeoutError:
            message = f"the body did not arrive within {self.limits.body_s:g} s"
            raise Refused(408, message, connection="close") from None
        finally:
            self.buffered -= held

    def metrics(self) -> str:
        """All counters in the text format of Prometheus."""
        count = sum(self.buckets)
        lines = [
            *_metric("pmafl_answers_total", "counter", "Answers by status."),
            *(f'pmafl_answers_total{{status="{code}"}} {n}' for code, n in sorted(self.answers.items())),
            *_metric("pmafl_decision_seconds", "histogram", "Time to a decision, with the waiting."),
        ]
        below = 0
        for bucket, number in zip(BUCKETS_S, self.buckets, strict=False):
            below += number
            lines.append(f'pmafl_decision_seconds_bucket{{le="{bucket:g}"}} {below}')
        lines.append(f'pmafl_decision_seconds_bucket{{le="+Inf"}} {count}')
        lines += [f"pmafl_decision_seconds_sum {self.seconds:.6f}", f"pmafl_decision_seconds_count {count}"]
        gauges = {
            "pmafl_questions_open": (self.pool.asked, "Questions that are waiting or being decided."),
            "pmafl_body_bytes": (self.buffered, "Bytes of bodies that are held."),
            "pmafl_sessions": (len(self.sessions), "Sessions."),
            "pmafl_workers": (self.limits.workers, "Processes that decide."),
            "pmafl_workers_replaced": (self.pool.replaced, "Processes that died or took too long."),
            "pmafl_start_time_seconds": (round(self.started, 3), "When the service started."),
        }
        for name, (value, words) in gauges.items():
            lines += [*_metric(name, "gauge", words), f"{name} {value}"]
        return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, words: str) -> Iterable[str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"


def make_app(service: Service, token: str | None) -> ASGI:
    """The endpoints, behind the checks that every request must pass."""
    app = FastAPI(
        title="pmafl",
        version=__version__,
        description="Who takes part in a round of federated learning over a wireless cell, and how.",
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
    )
    _add_endpoints(app, service)
    _add_errors(app)
    return _guarded(app, service, token)


def _add_endpoints(app: FastAPI, service: Service) -> None:
    documented: Any = {
        "requestBody": {"required": True, "content": _json("problem")},
        "responses": {
            "200": {"description": "The decision.", "content": _json("decision")},
            "400": {"description": "The problem is wrong; all its faults.", "content": _json("error")},
            "422": {"description": "The problem has no answer.", "content": _json("error")},
            **{
                code: {"description": words, "content": _json("error")}
                for code, words in {
                    "401": "The token is missing or wrong.",
                    "408": "The body came too slowly.",
                    "409": "The session began with another policy.",
                    "413": "The body is too large.",
                    "503": "Too many questions are waiting.",
                    "504": "The decision took too long.",
                }.items()
            },
        },
    }

    @app.post("/schedule", openapi_extra=documented, summary="Decide one round")
    async def schedule(
        request: Request,
        policy: Annotated[str | None, Query(description="Name of a policy.", max_length=100)] = None,
        option: Annotated[list[str], Query(description="KEY=VALUE, an option of the policy.")] = [],  # noqa: B006
        seed: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
        reasons: Annotated[bool, Query(description="Say why devices were left out.")] = True,
        session: Annotated[str | None, Query(description="Keeps the policy's memory.")] = None,
    ) -> Response:
        asked = service.asked(policy, option, seed, reasons)
        async with service.body(request) as body:
            found = await service.answer(asked, session, body)
        return Response(found.text, STATUS[found.kind], media_type="application/json")

    @app.delete("/sessions/{name}", status_code=204, summary="Forget a session")
    async def forget(name: str) -> Response:
        if service.sessions.pop(name, None) is None:
            raise Refused(404, "there is no such session")
        return Response(status_code=204)

    @app.get("/health", summary="Whether the service is up")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "version": __version__, "open": service.pool.asked}

    @app.get("/metrics", summary="Counters for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> str:
        return service.metrics()

    @app.get("/policies", summary="Names of all policies")
    async def policies() -> list[str]:
        return POLICIES.names()

    @app.get("/schema", summary="The JSON Schema of problems and answers")
    async def print_schema() -> dict[str, Any]:
        return schema()

    described = app.openapi()
    components = described.setdefault("components", {}).setdefault("schemas", {})
    components.update({name: _moved(part) for name, part in definitions().items()})
    described["paths"]["/schedule"]["post"]["responses"].update(documented["responses"])


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _moved(part: Any) -> Any:
    """A schema with its references as OpenAPI has them."""
    if isinstance(part, dict):
        return {key: _moved(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_moved(value) for value in part]
    return part.replace("#/$defs/", "#/components/schemas/") if isinstance(part, str) else part


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    kind = "internal" if status >= 500 else "input"
    return JSONResponse({"error": message, "kind": kind}, status, headers)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return _error(error.status, error.message, error.headers)

    @app.exception_handler(InputError)
    async def wrong(request: Request, error: InputError) -> Response:
        return _error(400, str(error))

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        return _error(error.status_code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _error(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _guarded(app: ASGI, service: Service, token: str | None) -> ASGI:
    """Counts answers, wants the token, and gives up on clients that do not read their answer."""
    limits = service.limits
    longest_s = limits.body_s + limits.decision_s * (1 + limits.waiting / limits.workers) + SLACK_S

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return

        async def counted(message: Any) -> None:
            if message["type"] == "http.response.start":
                service.answers[message["status"]] += 1
            await send(message)

        headers = dict(scope["headers"])
        inner = app
        if token is None and not _is_local_name(headers.get(b"host", b"")):
            # A page in a browser may have its own name point here: only our own are served.
            inner = _error(400, "the host must be localhost; start with a token to serve other names")
        elif token is not None and scope["path"] != "/health" and not _is_token(headers, token):
            inner = _error(401, "send Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})
        try:
            async with asyncio.timeout(longest_s):
                await inner(scope, receive, counted)
        except TimeoutError:
            return

    return guarded


def _is_local_name(host: bytes) -> bool:
    name = host.decode("latin-1").lower()
    return re.sub(r":\d+$", "", name) in LOCAL_NAMES


def _is_token(headers: dict[bytes, bytes], token: str) -> bool:
    given = headers.get(b"authorization", b"")
    return hmac.compare_digest(given, b"Bearer " + token.encode())


class _Impatient(H11Protocol):
    """Closes connections whose headers do not come."""

    patience_s = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        if not self._waiting():
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.patience_s, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._waiting() and not self.transport.is_closing():
            self.transport.close()


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are this machine's own."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InputError(f"host {host!r:.80}: there is no such address") from None
    return all(ipaddress.ip_address(entry[4][0]).is_loopback for entry in found)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise InputError(f"{host}, port {port}: cannot be used ({error.strerror})") from None
    return listener


def serve(
    default: Asked,
    limits: Limits,
    listener: socket.socket,
    token: str | None,
    certificate: tuple[str, str] | None,
    ready: Callable[[], None],
) -> None:
    """Serve until a signal ends it. certificate: its file and that of its key; ready: called before."""
    certificate_file, key_file = certificate or (None, None)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # uvicorn ends in order, then raises the signal again
    service = Service(default, limits)
    try:
        _Impatient.patience_s = limits.body_s
        config = uvicorn.Config(
            make_app(service, token),
            http=_Impatient,
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=5,
            ssl_certfile=certificate_file,
            ssl_keyfile=key_file,
        )
        ready()
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        service.pool.close()
