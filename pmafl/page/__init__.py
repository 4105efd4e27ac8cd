"""Pages to look at: one file of a run, a comparison, the paper's claims or a plan, which works offline.

Bokeh draws them: it is BSD, its script comes inside its Python package and is 1.3 MB inlined, where
Plotly's is 4.8 MB and Altair needs a converter of 33 MB.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from pmafl.errors import InputError
from pmafl.page.run import PAGE, run_page
from pmafl.runs import Run, open_run, write_atomically

__all__ = ["PAGE", "write_page", "write_run_page"]


def write_page(path: str | PathLike[str]) -> Path:
    """Write the page of whatever a path is, beside it; say what a path can be if it is nothing of that."""
    path = Path(path)
    if (path / "settings.toml").is_file():
        return write_run_page(path)
    raise InputError(f"{path!s:.200} is no run directory")


def write_run_page(run: Run | str | PathLike[str]) -> Path:
    """Write ``page.html`` into a run's directory."""
    run = open_run(run)
    path = run.directory / PAGE
    write_atomically(path, run_page(run).encode())
    return path
