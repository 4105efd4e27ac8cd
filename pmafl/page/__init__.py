"""Pages to look at: one file of a run, a comparison, the paper's claims or a plan, which works offline.

Bokeh draws them: it is BSD, its script comes inside its Python package and is 1.3 MB inlined, where
Plotly's is 4.8 MB and Altair needs a converter of 33 MB.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from pmafl.errors import InputError
from pmafl.page.comparison import comparison_data
from pmafl.page.document import render
from pmafl.page.live import address_of, open_server, serve, serving
from pmafl.page.plan import plan_data
from pmafl.page.results import CLAIMS, results_data
from pmafl.page.run import PAGE, run_page
from pmafl.progress import report
from pmafl.runs import Run, open_run, write_atomically

MOST_RUN_PAGES = 60  # that the page of a comparison makes at once: 2 s and 1.5 MB each

__all__ = ["PAGE", "address_of", "open_server", "serve", "serving", "write_page", "write_run_page"]


def write_page(path: str | PathLike[str]) -> Path:
    """Write the page of whatever a path is, beside it; say what a path can be if it is nothing of that."""
    path = Path(path)
    if (path / "settings.toml").is_file():
        return write_run_page(path)
    if any(path.glob("runs/*/settings.toml")):
        return write_comparison_page(path)
    if (path / CLAIMS).is_file():
        return _write(path, render("results", results_data(path)))
    if path.is_file():
        page = path.with_suffix(".html")
        write_atomically(page, render("plan", plan_data(path)).encode())
        return page
    raise InputError(
        f"{path!s:.200} is nothing to look at: it must be a run directory, that of a comparison, one with "
        f"{CLAIMS}, or what pmafl plan --json wrote"
    )


def _write(directory: Path, page: str) -> Path:
    path = directory / PAGE
    write_atomically(path, page.encode())
    return path


def write_comparison_page(directory: Path) -> Path:
    """Write ``page.html`` into a comparison's directory, and into those of its runs that have none."""
    data, jobs = comparison_data(directory)
    there = {job.directory for job in jobs if _has_page(job.directory)}
    missing = [job for job in jobs if job.directory not in there]
    for number, job in enumerate(missing[:MOST_RUN_PAGES]):
        report("pages of the runs", number / len(missing[:MOST_RUN_PAGES]))
        write_run_page(Run(job.directory, job.settings))
        there.add(job.directory)
    if len(missing) > MOST_RUN_PAGES:
        data["notes"].append(
            f"{len(missing) - MOST_RUN_PAGES} runs have no page yet; the same command writes more of them."
        )
    for runs_of_one in data["runs"]:
        for run in runs_of_one:
            run.append(directory / run[1] in there)
    return _write(directory, render("comparison", data))


def _has_page(directory: Path) -> bool:
    """Whether a run has a page that is not older than its records."""
    page, records = directory / PAGE, directory / "rounds.jsonl"
    return page.is_file() and page.stat().st_mtime >= records.stat().st_mtime


def write_run_page(run: Run | str | PathLike[str]) -> Path:
    """Write ``page.html`` into a run's directory."""
    run = open_run(run)
    return _write(run.directory, run_page(run))
