"""`pmafl export`: the trained models of a run as files that need no pmafl."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pmafl.commands import screen
from pmafl.errors import InputError


def export(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A run that trained.")],
    device: Annotated[int | None, typer.Option(help="The model of this device, counted from 0.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="The models of all devices.")] = False,
    round_: Annotated[
        int | None,
        typer.Option("--round", metavar="N", help="After N rounds, trained again if need be; default all."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; default RUN_DIR/export.")] = None,
    form: Annotated[
        Literal["safetensors", "onnx"], typer.Option("--format", help="ONNX needs the extra onnx.")
    ] = "safetensors",
) -> None:
    """Write trained models with their names, and a JSON file that says how to rebuild and feed them.

    Without --device or --all: the one model that all devices have, where the algorithm makes one.
    """
    from pmafl import runs

    if all_ and device is not None:
        raise InputError("--device and --all were both given; choose one")
    run = runs.open_run(run_directory)
    devices = [*range(run.settings.fleet.devices)] if all_ else None if device is None else [device]
    written = runs.export(run, out or run_directory / "export", devices, round_, form)
    more = f" and {len(written) - 1} more" if len(written) > 1 else ""
    screen().print(
        f"written {written[0]}{more}; how to use it is in {written[0].parent / 'model.json'}", soft_wrap=True
    )
