"""The commands of the program, one per file. Heavy imports stand inside the functions: help must be fast."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pmafl.settings import parse_assignment

if TYPE_CHECKING:
    from rich.console import Console

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="PRESET|FILE",
        help="mnist, cifar10, watch, tracker, sensor, phone, a TOML file, a run directory, or - .",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated."),
]

EngineOption = Annotated[Literal["local", "ray"], typer.Option(help="Processes here, or a Ray cluster.")]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="Parallel processes; default one per core.")]
AddressOption = Annotated[str | None, typer.Option(help="Address of the Ray cluster.")]


def assignments(texts: list[str] | None) -> dict[str, Any]:
    """Overrides by dotted key from the ``--set`` options."""
    return dict(parse_assignment(text) for text in texts or [])


def command_line(words: list[str], texts: list[str]) -> str:
    """A command as people type it, with its ``--set`` options."""
    return shlex.join([*words, *(word for text in texts for word in ("--set", text))])


def screen() -> Console:
    """Where commands print for people. Names and paths are printed as they are, whatever they look like."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)
