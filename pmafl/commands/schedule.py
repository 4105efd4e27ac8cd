"""`pmafl schedule`: one round's decision, for people and for programs, or one after another."""

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from pmafl.commands import assignments, screen
from pmafl.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from pmafl.scheduling import Decision, Question
    from pmafl.service import Asked

MOST_ROWS = 100  # a table for people ends here; --json has everyone


def schedule(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM.json", help="The round problem, or - for standard input.")
    ] = "",
    policy: Annotated[str, typer.Option(help="Scheduling policy, or package.module:function.")] = "dual",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of the policy; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of policies that draw at random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="One JSON problem per line in, one JSON answer per line out.")
    ] = False,
    reasons: Annotated[
        bool, typer.Option(help="Say in the JSON why devices were left out; without is faster.")
    ] = True,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of problems and answers, and end.")
    ] = False,
) -> None:
    """Decide one round: who takes part, with what share of the band, time, clock and power.

    PROBLEM.json is one JSON object. The cell: bandwidth_hz, noise_w_per_hz, deadline_s, energy_coefficient,
    local_iterations, tradeoff, and, if known, the number of the round. devices: a list of objects with
    samples, cycles_per_sample, max_frequency_hz, max_power_w, channel_gain, queue_j and upload_bits, and, if
    known, id (a name of your own), budget_j, energy_cap_j, available, rounds_since, last_loss,
    circuit_power_w, receive_energy_j and download_time_s. What is the same for all devices, such as
    upload_bits and budget_j, may stand once beside the cell. scheduled: a list of devices that fixes the set.
    outlook and outcome: for policies that plan or remember.

    The answer (--json) lists who is scheduled, and for each device in order bandwidth_share, compute_time_s,
    upload_time_s, frequency_hz, power_w, compute_energy_j, upload_energy_j and queue_after_j; objective,
    lower_bound and gap; and left_out: who was not scheduled, and why.

    --schema has every field with its unit and limits; docs/schedule.md has examples.
    """
    from pmafl.service import Asked, serve_lines

    if schema:
        _print_schema()
        return
    if not problem and not stream:
        raise InputError("schedule needs PROBLEM.json, or - for standard input; --schema says what it is")
    asked = Asked(policy, assignments(option), seed, reasons)
    asked.find()  # what is wrong with it is wrong for every line
    if not stream:
        _once(asked, _read(problem), as_json)
    elif problem in ("", "-"):
        serve_lines(asked, sys.stdin.buffer, sys.stdout)
    else:
        with _open(problem) as lines:
            serve_lines(asked, lines, sys.stdout)


def _once(asked: "Asked", text: bytes, as_json: bool) -> None:
    from pmafl.scheduling import answer, left_out, read_question, write
    from pmafl.service import decide_once

    question = read_question(text)
    decision = decide_once(asked, question)
    if as_json:
        typer.echo(write(answer(question, decision, asked.reasons)))
        return
    console = screen()
    console.print(_table(question, decision))
    console.print(_sentence(decision, int(question.problem.samples[decision.scheduled].sum())))
    for device, reason in sorted(left_out(question.problem, decision, MOST_ROWS).items()):
        console.print(f"device {_called(question, device)} {reason}")
    if (left := int((~decision.scheduled).sum())) > MOST_ROWS:
        console.print(f"and {left - MOST_ROWS} more were left out")


def _print_schema() -> None:
    import json

    from pmafl.scheduling import schema

    typer.echo(json.dumps(schema(), indent=2))


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    with _open(path) as file:
        return file.read()


def _open(path: str) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name a JSON file, or - ") from None


def _table(question: "Question", decision: "Decision") -> "Table":
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
        row = (f"{column[device]:.3g}" for column in columns.values())
        table.add_row(_called(question, device), *row)
    if len(devices) > MOST_ROWS:
        table.add_row(f"and {len(devices) - MOST_ROWS} more")
    return table


def _called(question: "Question", device: int) -> str:
    """A device's name, whatever a stranger calls it, as a terminal can show it."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(question.called(device)))


def _sentence(decision: "Decision", samples: int) -> str:
    scheduled, devices = len(decision.scheduled_devices), decision.scheduled.size
    text = f"{scheduled} of {devices} devices with {samples} samples; objective {decision.objective:.6g}"
    if decision.lower_bound is None:
        return text
    return f"{text}, no schedule is below {decision.lower_bound:.6g} (gap {decision.relative_gap:.2%})"
