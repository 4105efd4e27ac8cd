"""`pmafl run`: one run from settings to pictures and a page, or going on with one that stopped."""

from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pmafl.commands import (
    AddressOption,
    EngineOption,
    SetOption,
    SourceArgument,
    WorkersOption,
    assignments,
    screen,
)


def run(
    source: SourceArgument = "mnist",
    set_: SetOption = None,
    policy: Annotated[
        str | None, typer.Option(help="Scheduling policy; short for --set policy.name=...")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Learning algorithm; short for --set learning.algorithm=...")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set run.seed=...")] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Short for --set run.rounds=...; with --resume, make the run longer.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; default runs/DATE-TIME.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with the run in DIR.")] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also log to TensorBoard (extra: tensorboard).")
    ] = None,
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Also log to Weights & Biases (extra: wandb).")
    ] = None,
    mlflow: Annotated[
        str | None, typer.Option(metavar="EXPERIMENT", help="Also log to MLflow (extra: mlflow).")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve the run's page on this machine while it goes on.")
    ] = False,
) -> None:
    """Run federated learning from end to end, and draw it. An interrupted run goes on with --resume.

    The settings come from a preset, a TOML file, a run directory, or - for standard input. Presets that
    train: mnist and cifar10 (the paper's), watch (twenty smartwatches). Fleets whose rounds are scheduled
    without training: tracker, sensor, phone.
    """
    from pmafl import budgets, runs
    from pmafl import callbacks as logs
    from pmafl.display import summary_table, warn, watching
    from pmafl.errors import InputError
    from pmafl.rounds import Callback
    from pmafl.settings import load
    from pmafl.world import World

    short = {"policy.name": policy, "learning.algorithm": algorithm, "run.seed": seed}
    overrides = assignments(set_) | {key: value for key, value in short.items() if value is not None}
    if resume is not None and (overrides or out is not None):
        raise InputError("--resume takes no other settings but --rounds: it goes on with its directory's")
    length = {} if rounds is None else {"run.rounds": rounds}
    directory = resume or out or Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")
    this = runs.Run(directory)
    settings = None if resume else load(source, overrides | length)
    callbacks: list[Callback] = [logs.tensorboard(tensorboard)] if tensorboard else []
    callbacks += [log_to(place) for log_to, place in ((logs.wandb, wandb), (logs.mlflow, mlflow)) if place]
    team: Any = {"workers": workers, "engine": engine, "address": address}
    console = screen()
    with _beside(directory, live) as server:  # until the end: pages see the last round while it is drawn
        try:
            with watching(console) as watch:

                def begin(world: World, done: int) -> None:
                    if server is not None:
                        console.print(f"live at {server.begin()}", soft_wrap=True)
                    watch.begin(world, done)

                seen: list[Callback] = [watch, *callbacks]
                if settings is None:
                    summary = runs.execute(this, seen, rounds=rounds, begin=begin, **team)
                else:
                    summary = runs.run(this, settings, seen, begin=begin, **team)
        except KeyboardInterrupt:
            if (directory / "settings.toml").is_file():
                console.print(f"stopped; go on with: pmafl run --resume {directory}", soft_wrap=True)
            raise
        from pmafl.page import write_run_page  # what draws is slow to load, and not needed before
        from pmafl.plots import plot_run

        console.print(summary_table(summary))
        warn(console, [budgets.in_words([summary], this.settings.policy)])
        plot_run(this)
        page = write_run_page(this)
    console.print(f"records and plots are in {directory}; start with {page}", soft_wrap=True)


def _beside(directory: Path, live: bool) -> AbstractContextManager[Any]:
    """Who serves the page while the run goes on; nobody where nobody looks."""
    if not live:
        return nullcontext()
    from pmafl.page import serving

    return serving(directory)
