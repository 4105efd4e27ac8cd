"""`pmafl reproduce`: the paper's figures and the table of its claims."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pmafl.commands import SetOption, assignments
from pmafl.errors import InputError

if TYPE_CHECKING:
    from pmafl.experiments.study import Run, Scale

What = Literal["fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "all", "claims"]


def reproduce(
    what: Annotated[What, typer.Argument(help="A figure of the paper, all of them, or the table of claims.")],
    dataset: Annotated[
        Literal["mnist", "cifar10"] | None, typer.Option(help="Only this data set; default both.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the runs that learn.")] = 3,
    wireless_seeds: Annotated[
        int, typer.Option(min=1, help="Seeds of energy and scheduled samples, which need no learning.")
    ] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of every run.")] = 100,
    reading: Annotated[
        Literal["chosen", "stated"],
        typer.Option(help="Training as the presets choose it, or with the numbers that the paper states."),
    ] = "chosen",
    set_: SetOption = None,
    out: Annotated[Path, typer.Option(help="Directory of the runs; done runs in it are kept.")] = Path(
        "runs/reproduce"
    ),
    results: Annotated[Path, typer.Option(help="Directory of figures, CSV and claims.")] = Path("results"),
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel processes; default one a core.")
    ] = None,
) -> None:
    """Run what a figure of the paper shows, or go on with it, and draw it; `claims` reads what was run."""
    from pmafl.experiments import FIGURES
    from pmafl.experiments.study import DATASETS, Scale

    if what == "claims":
        return _write_claims(results, out)
    overrides = assignments(set_)
    datasets = [dataset] if dataset else list(DATASETS)
    scales = [Scale(name, reading, seeds, wireless_seeds, rounds, overrides) for name in datasets]
    chosen = [
        (name, scale)
        for name in (FIGURES if what == "all" else [what])
        for scale in scales
        if scale.dataset in _module(name).DATASETS
    ]
    if not chosen:
        raise InputError(f"{what} is not about {dataset}; leave --dataset out")
    for name, scale in chosen:
        _make(name, scale, out, results, workers or os.cpu_count() or 1)


def _module(name: str) -> Any:
    from importlib import import_module

    return import_module(f"pmafl.experiments.{name}")


def _make(name: str, scale: "Scale", out: Path, results: Path, workers: int) -> None:
    """One figure on one data set, from its runs to its files."""
    from pmafl.experiments import report
    from pmafl.experiments.study import distinct, prepare

    figure = _module(name)
    with _running(f"{name} {scale.suffix}", workers) as run:
        study = prepare(name, figure.curves(scale), scale, out, figure.SCHEDULING, run)
        run(distinct([*study.wireless, *study.jobs]))
    picture = report.write(study, figure, results, _command(name, scale))
    typer.echo(f"{picture} and its tables are written")


@contextmanager
def _running(title: str, workers: int) -> Iterator["Run"]:
    """A function that runs what is not done yet, with a progress bar."""
    from collections.abc import Sequence

    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    from pmafl import comparison

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:

        def run(jobs: Sequence[comparison.Job]) -> None:
            waiting = comparison.unfinished(jobs)
            bar = progress.add_task(title, total=len(jobs), completed=len(jobs) - len(waiting))
            if waiting:
                done_before = len(jobs) - len(waiting)
                comparison.run_locally(
                    waiting, workers, lambda done, total: progress.update(bar, completed=done_before + done)
                )

        yield run


def _command(name: str, scale: "Scale") -> str:
    """The command that makes this figure again."""
    words = ["pmafl", "reproduce", name, "--dataset", scale.dataset, "--seeds", str(scale.seeds)]
    words += ["--wireless-seeds", str(scale.wireless_seeds), "--rounds", str(scale.rounds)]
    words += ["--reading", scale.reading] if scale.reading != "chosen" else []
    return " ".join([*words, *(f"--set {key}={value}" for key, value in scale.overrides.items())])


def _write_claims(results: Path, out: Path) -> None:
    from pmafl.experiments.claims import write_claims
    from pmafl.experiments.statements import all_claims

    typer.echo(f"{write_claims(all_claims(), results, out)} is written")
