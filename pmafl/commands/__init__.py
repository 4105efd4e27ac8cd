"""The commands of the program, one a file. Heavy imports stand inside the functions: help must be fast."""

from typing import Annotated, Any, Literal

import typer

from pmafl.settings import parse_assignment

SourceArgument = Annotated[
    str, typer.Argument(metavar="PRESET|FILE", help="mnist, cifar10, a TOML file, a run directory, or - .")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be given many times."),
]

EngineOption = Annotated[Literal["local", "ray"], typer.Option(help="Processes here, or a Ray cluster.")]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="Parallel processes; default one a core.")]
AddressOption = Annotated[str | None, typer.Option(help="Address of the Ray cluster.")]


def assignments(texts: list[str] | None) -> dict[str, Any]:
    """Overrides by dotted key from the ``--set`` options."""
    return dict(parse_assignment(text) for text in texts or [])
