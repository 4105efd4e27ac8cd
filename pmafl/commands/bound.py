"""`pmafl bound`: the paper's convergence bound for a run, with constants measured on it, against its loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmafl.commands import screen

if TYPE_CHECKING:
    from rich.table import Table

    from pmafl.theory.assessment import Assessment

MOST_COLUMNS = 7  # of the table of losses: more points are in the plot and in JSON

WhatIfOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="policy=NAME|samples=N,N,...",
        help="Also the bound of another policy, or of scheduled sample volumes: one number for all rounds, "
        "one per round, or a file with them. May be repeated.",
    ),
]


def bound(
    directory: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A finished run.")],
    what_if: WhatIfOption = None,
    points: Annotated[int, typer.Option(min=2, help="Rounds at which to measure, evenly spread.")] = 5,
    devices: Annotated[int, typer.Option(min=1, help="Devices whose curvature is measured.")] = 10,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Compare the convergence bound, with constants measured on a run, with that run's training loss.

    The first call trains the run again to measure along it, and keeps what it found in RUN_DIR/bound.json;
    after that, other schedules are answered at once.
    """
    import json

    from rich.console import Console
    from rich.progress import Progress

    from pmafl.plots.bound import save_bound
    from pmafl.theory.assessment import assess

    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        bar = progress.add_task("training again", total=None)

        def report(done: int, rounds: int) -> None:
            progress.update(bar, completed=done, total=rounds)

        assessment = assess(directory, what_if or [], points, devices, report)
    picture = save_bound(assessment, directory)
    if json_:
        typer.echo(json.dumps(assessment.to_dict() | {"plot": str(picture)}, indent=2, allow_nan=False))
        return
    console = screen()
    for table in tables(assessment):
        console.print(table)
    for line in remarks(assessment):
        console.print(line, soft_wrap=True)
    console.print(f"the plot is in {picture}", soft_wrap=True)


def tables(assessment: Assessment) -> Iterator[Table]:
    """Constants, conditions, and the bound against the loss."""
    import numpy as np
    from rich.table import Table

    constants = Table("", "value", "median", "how it was measured", title="Constants")
    for row in assessment.rows:
        constants.add_row(row.name, f"{row.used:.4g}", _number(row.median), row.how)
    yield constants

    conditions = Table("condition", "value", "limit", "at medians", "holds", title="Conditions")
    for verdict in assessment.verdicts:
        answer = "yes" if verdict.holds else f"no: {verdict.if_it_fails}"
        at_medians = f"{verdict.median_limit:.4g}{'' if verdict.holds_at_median else ' (no)'}"
        conditions.add_row(
            verdict.condition, f"{verdict.value:.4g}", f"{verdict.limit:.4g}", at_medians, answer
        )
    if assessment.not_covered:
        beyond = "no: the theorem is about one plain gradient step"
        conditions.add_row("training as in the theorem", ", ".join(assessment.not_covered), "", "", beyond)
    yield conditions

    found = assessment.found
    points = sorted(set(map(int, np.linspace(0, len(found.rounds) - 1, MOST_COLUMNS))))
    rounds = found.rounds[points].astype(int)
    losses = Table("after round", *map(str, rounds), title="Training loss, and the bound on it")
    losses.add_row("measured", *map(_number, found.losses[points]))
    for promise in assessment.promises:
        for form, bound in promise.losses.items():
            losses.add_row(f"{promise.name}, {form}", *map(_number, bound[rounds]))
    yield losses


def remarks(assessment: Assessment) -> Iterator[str]:
    """What the tables mean, in sentences."""
    for promise in assessment.promises:
        yield f"{promise.name}, scheduling {promise.scheduled_share.mean():.1%} of the samples per round:"
        yield from (f"  {remark}" for remark in promise.remarks)
    yield from assessment.remarks
    recorded, replayed = assessment.recorded_test_loss, float(assessment.found.test_loss)
    if recorded is not None and abs(replayed - recorded) > 1e-6 * abs(recorded):
        yield (
            f"the replay ended at a test loss of {replayed:.6g}, the run at {recorded:.6g}: other hardware "
            f"or other versions, so this is about a run like it"
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
