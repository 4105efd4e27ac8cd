"""`pmafl view`: a run, a comparison, the paper's claims or a plan, as a page in the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pmafl.commands import screen

NICENESS = 10  # a tenth of a core that others want, which is enough to answer within a second


def view(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Run directory, comparison, results/, or a plan's JSON.")
    ],
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    live: Annotated[
        bool, typer.Option("--live", help="Serve a run's page on this machine, and show rounds as they come.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="For --live; default the first free one from 8765 on."),
    ] = None,
    until_closed: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Write the page of a run (or of a comparison, of results/, of a plan) and open it: one file, offline."""
    if live:
        _serve(path, port, open_, until_closed)
        return
    from pmafl.display import patiently
    from pmafl.page import write_page
    from pmafl.progress import listening

    console = screen()
    with listening(patiently(console.print)):
        page = write_page(path)
    console.print(f"the page is {page}", soft_wrap=True)
    if open_:
        show(page.resolve().as_uri())


def _serve(path: Path, port: int | None, open_: bool, until_closed: bool) -> None:
    """Until interrupted, which is how one ends it.

    `until_closed`: beside a run, which comes first, until that closes standard input.
    """
    if until_closed and hasattr(os, "nice"):
        os.nice(NICENESS)
    from pmafl.page import address_of, open_server, serve

    server = open_server(path, port)
    screen().print(f"the page of {path} is at {address_of(server)}; Ctrl-C ends it", soft_wrap=True)
    if open_:
        show(address_of(server))
    try:
        serve(server, sys.stdin.buffer if until_closed else None)
    except KeyboardInterrupt:
        return


def show(address: str) -> bool:
    """Open an address where there is a screen; a text browser would take the terminal away."""
    import webbrowser

    if sys.platform.startswith("linux") and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return False
    return webbrowser.open(address)
