"""`pmafl view`: a run, a comparison, the paper's claims or a plan, as a page in the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pmafl.commands import screen


def view(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Run directory, comparison, results/, or a plan's JSON.")
    ],
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Write the page of a run (or of a comparison, of results/, of a plan) and open it: one file, offline."""
    from pmafl.display import patiently
    from pmafl.page import write_page
    from pmafl.progress import listening

    console = screen()
    with listening(patiently(console.print)):
        page = write_page(path)
    console.print(f"the page is {page}", soft_wrap=True)
    if open_:
        show(page.resolve().as_uri())


def show(address: str) -> bool:
    """Open an address where there is a screen; a text browser would take the terminal away."""
    import webbrowser

    if sys.platform.startswith("linux") and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return False
    return webbrowser.open(address)
