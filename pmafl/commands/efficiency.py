"""`pmafl efficiency`: what a schedule reaches of the best possible one, and how it treats the devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmafl.commands import SetOption, SourceArgument, assignments, screen

if TYPE_CHECKING:
    from rich.table import Table

    from pmafl.efficiency import Efficiency
    from pmafl.runs import Run


def efficiency(
    source: SourceArgument = "mnist",
    set_: SetOption = None,
    policy: Annotated[
        str | None, typer.Option(help="Scheduling policy; short for --set policy.name=...")
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print JSON only, with one entry per device.")
    ] = False,
) -> None:
    """Compare scheduled samples with a bound that no schedule can exceed, and show what each device used.

    A run directory is judged by its records. Settings, or a run directory with other settings, are scheduled
    first, without learning.
    """
    import json
    from functools import partial

    from pmafl.display import patiently
    from pmafl.efficiency import best_possible, measure, run_wireless
    from pmafl.progress import listening
    from pmafl.runs import open_run
    from pmafl.settings import load
    from pmafl.world import wireless_world

    overrides = assignments(set_) | ({"policy.name": policy} if policy else {})
    recorded = not overrides and (Path(source) / "rounds.jsonl").is_file()
    run = open_run(source) if recorded else None
    world = run.wireless_world if run else wireless_world(load(source, overrides))
    with listening(patiently(partial(typer.echo, err=True))):
        records = _recorded(run) if run else run_wireless(world)
    result = measure(world, records, best_possible(world))
    if json_:
        typer.echo(json.dumps(result.to_dict(), indent=2, allow_nan=False))
    else:
        screen().print(table(result))


def _recorded(run: Run) -> list[dict[str, Any]]:
    from pmafl.errors import InputError

    directory, records, rounds = run.directory, run.rows, run.settings.run.rounds
    if any("answered" in record for record in records):
        raise InputError(f"{directory}: real devices ran it, and their channels in all rounds are not known")
    if len(records) < rounds:
        raise InputError(
            f"{directory}: only {len(records)} of {rounds} rounds are done; "
            f"go on with pmafl run --resume {directory}"
        )
    return records


def table(result: Efficiency) -> Table:
    """The result for a person."""
    import numpy as np
    from rich.table import Table

    used, turns, bound = result.used, result.turns, result.bound
    rows = Table(show_header=False, title=f"{result.rounds} rounds, policy {result.policy}")
    rows.add_row("scheduled samples", f"{result.samples:,.0f}")
    rows.add_row("no schedule exceeds", f"{bound.samples:,.0f}")
    rows.add_row("efficiency", f"{result.share:.1%}")
    low, middle, high = np.quantile(used, [0, 0.5, 1])
    rows.add_row("energy of the budget", f"{low:.1%} to {high:.1%}, median {middle:.1%}")
    worst = f"device {used.argmax()}: {used.max():.2%}"
    rows.add_row("largest spender", worst if used.max() <= 1 + 1e-9 else f"{worst}, over its budget")
    spread = f"{turns.min():.0f} to {turns.max():.0f}, mean {turns.mean():.1f}, spread {result.spread:.0%}"
    rows.add_row("turns per device", spread)
    rows.add_row("least served", f"device {turns.argmin()}: {turns.min():.0f} rounds")
    return rows
