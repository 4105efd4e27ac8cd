"""`pmafl leaderboard`: the field's methods on one cell, by what their accuracy costs."""

from pathlib import Path
from typing import Annotated

import typer

from pmafl.commands import (
    AddressOption,
    EngineOption,
    SetOption,
    SourceArgument,
    WorkersOption,
    assignments,
    command_line,
    screen,
)
from pmafl.errors import InputError

RESULTS = Path("results")


def leaderboard(
    source: SourceArgument = "mnist",
    algorithms: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Methods, perhaps with options, as in pma,fedprox:proximal_weight=0.1; default all.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from run.seed on.")] = 5,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of every run; default the preset's.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Who takes part, perhaps with options, as in uniform:count=10; default the preset's."
        ),
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(min=1, help="Rounds between tests; default about 25 tests in a run.")
    ] = None,
    set_: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the runs; done ones are kept. Default runs/leaderboard-PRESET."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Directory of tables, picture and what is kept of the runs; default results, "
            "or OUT/results where that holds more."
        ),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
) -> None:
    """Run every method with the same seeds on one cell, and set accuracy against joules, bits and seconds.

    What is done or kept is not run again: with everything kept, tables and picture are made anew in seconds.
    """
    from pmafl import comparison
    from pmafl.experiments import leaderboard as board_of
    from pmafl.experiments import report, standings

    overrides = assignments(set_)
    for key, value in (("run.rounds", rounds), ("run.evaluate_every", evaluate_every)):
        if value is not None:
            overrides[key] = value
    methods = board_of.read_methods(algorithms)
    place = results or RESULTS
    runs = out or Path("runs") / f"leaderboard-{board_of.source_name(source)}"
    archive = board_of.open_archive(place, runs / "results")
    board = board_of.plan(source, overrides, methods, seeds, policy, runs, archive)
    if more := standings.holds_more(board, place):
        if results is not None:
            raise InputError(f"{more}; give another --results")
        place = runs / "results"
        archive = board_of.open_archive(place, RESULTS)
        typer.echo(f"{more}, and is kept; this goes to {place}")
    comparison.check(archive.unfinished(board.jobs), engine)
    report.make_directory(place)
    board_of.run(board, archive, (engine, workers, address))
    if here := [job for job in board.jobs if job.directory.is_dir()]:  # others are kept, but gone
        comparison.write_grid(here, runs)
    entries = board_of.measure(board, archive)
    command = _command(source, algorithms, seeds, rounds, policy, evaluate_every, set_ or [])
    table = standings.write(board, entries, archive, place, command)
    console = screen()
    console.print(standings.for_screen(entries))
    for note in standings.notes(board, entries):
        console.print(note, soft_wrap=True)
    console.print(f"{table}, its CSV, LaTeX and picture are written", soft_wrap=True)


def _command(
    source: str,
    algorithms: str | None,
    seeds: int,
    rounds: int | None,
    policy: str | None,
    evaluate_every: int | None,
    set_: list[str],
) -> str:
    """The command that makes this leaderboard again."""
    words = ["pmafl", "leaderboard", source, "--seeds", str(seeds)]
    given = {"algorithms": algorithms, "rounds": rounds, "policy": policy, "evaluate-every": evaluate_every}
    words += [
        word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))
    ]
    return command_line(words, set_)
