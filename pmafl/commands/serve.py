"""`pmafl serve`: the scheduler over HTTP."""

import os
from pathlib import Path
from typing import Annotated

import typer

from pmafl.commands import assignments
from pmafl.errors import InputError

TOKEN_VARIABLE = "PMAFL_TOKEN"
SHORTEST_TOKEN = 16  # characters


def serve(
    host: Annotated[str, typer.Option(help="Address to listen at; others than loopback need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    policy: Annotated[str, typer.Option(help="Policy of requests that name none.")] = "dual",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of that policy; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of policies that draw at random.")] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that clients must send; or set {TOKEN_VARIABLE}."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one per core.")] = None,
    waiting: Annotated[int, typer.Option(min=0, help="Questions that may wait for a process.")] = 64,
    max_bytes: Annotated[int, typer.Option(min=1, help="Largest problem.")] = 8 * 2**20,
    body_seconds: Annotated[float, typer.Option(min=0.1, help="Time for a problem to arrive.")] = 10.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time for a decision.")] = 30.0,
) -> None:
    """Answer `pmafl schedule`'s questions over HTTP, for other systems.

    POST /schedule takes a problem and gives a decision; GET /openapi.json describes it, GET /schema has the
    JSON Schema. With ?session=NAME the policy's memory is kept. GET /health and GET /metrics are for those
    who watch it. See docs/schedule.md.
    """
    from pmafl.service import Asked

    try:
        from pmafl.service import http
    except ModuleNotFoundError as error:
        raise InputError(f"serve needs {error.name}; pip install 'pmafl[serve]'") from None
    asked = Asked(policy, assignments(option), seed)
    asked.find()
    token = _token(token_file)
    if token is None and not http.is_loopback(host):
        raise InputError(
            f"host {host}: others could reach it; give a token by --token-file or {TOKEN_VARIABLE}"
        )
    if (certificate is None) != (key is None):
        raise InputError("--certificate and --key must be given together")
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise InputError(f"{path}: there is no such file; it must be a PEM file")
    limits = http.Limits(
        workers=workers or os.cpu_count() or 1,
        waiting=waiting,
        body_bytes=max_bytes,
        body_s=body_seconds,
        decision_s=seconds,
    )
    listener = http.listen(host, port)
    scheme, name = "https" if key else "http", f"[{host}]" if ":" in host else host
    address = f"{scheme}://{name}:{listener.getsockname()[1]}"

    def ready() -> None:
        typer.echo(f"serving policy {policy} at {address} with {limits.workers} processes; Ctrl-C ends it")

    with listener:
        files = (str(certificate), str(key)) if certificate and key else None
        http.serve(asked, limits, listener, token, files, ready)


def _token(path: Path | None) -> str | None:
    if path is not None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise InputError(f"{path}: cannot be read ({reason}); it must hold the token") from None
        where = str(path)
    elif TOKEN_VARIABLE in os.environ:
        token, where = os.environ[TOKEN_VARIABLE].strip(), TOKEN_VARIABLE
    else:
        return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"{where}: a token has at least {SHORTEST_TOKEN} letters, digits or signs, no spaces"
        )
    return token
