"""`pmafl schedule`: one round's decision, for people and for programs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmafl.commands import assignments, screen

if TYPE_CHECKING:
    from rich.table import Table

    from pmafl.scheduling import Decision

MOST_ROWS = 100  # a table for people ends here; --json has everyone


def schedule(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM.json", help="The round problem, or - .")],
    policy: Annotated[str, typer.Option(help="Scheduling policy, or package.module:function.")] = "dual",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of the policy; may be given many times."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of policies that draw at random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Decide one round: who takes part, with what share of the band, time, clock and power."""
    import numpy as np

    from pmafl.scheduling import (
        Outlook,
        allocate_given,
        ask,
        begin,
        find_policy,
        left_out,
        read_problem,
        write_decision,
    )
    from pmafl.streams import stream

    found = find_policy(policy, **assignments(option))
    round_problem, fixed = read_problem(_read(problem))
    if fixed is None:
        this_round = Outlook(round_problem, np.ones(1), round_problem.round + 1)  # there is no other
        remembered = begin(found, this_round, policy)
        decision = ask(found, round_problem, remembered, stream(seed, "policy"), policy)
    else:
        decision = allocate_given(round_problem, fixed, "fixed")
    if as_json:
        typer.echo(write_decision(decision))
        return
    console = screen()
    console.print(_table(decision))
    console.print(_sentence(decision, int(round_problem.samples[decision.scheduled].sum())))
    for device, reason in sorted(left_out(round_problem, decision, MOST_ROWS).items()):
        console.print(f"device {device} {reason}")
    if (left := int((~decision.scheduled).sum())) > MOST_ROWS:
        console.print(f"and {left - MOST_ROWS} more were left out")


def _read(path: str) -> bytes:
    from pmafl.errors import InputError

    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name a JSON file, or - ") from None


def _table(decision: "Decision") -> "Table":
    from rich import box
    from rich.table import Table

    columns = {
        "share %": decision.bandwidth_share * 100,
        "compute s": decision.compute_time_s,
        "upload s": decision.upload_time_s,
        "GHz": decision.frequency_hz / 1e9,
        "power W": decision.power_w,
        "compute J": decision.compute_energy_j,
        "upload J": decision.upload_energy_j,
    }
    table = Table("device", *columns, title=f"policy {decision.policy}", box=box.SIMPLE, pad_edge=False)
    devices = decision.scheduled_devices
    for device in devices[:MOST_ROWS]:
        table.add_row(str(device), *(f"{column[device]:.3g}" for column in columns.values()))
    if len(devices) > MOST_ROWS:
        table.add_row(f"and {len(devices) - MOST_ROWS} more")
    return table


def _sentence(decision: "Decision", samples: int) -> str:
    scheduled, devices = len(decision.scheduled_devices), decision.scheduled.size
    text = f"{scheduled} of {devices} devices with {samples} samples; objective {decision.objective:.6g}"
    if decision.lower_bound is None:
        return text
    return f"{text}, no schedule is below {decision.lower_bound:.6g} (gap {decision.relative_gap:.2%})"
