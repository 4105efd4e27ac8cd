"""`pmafl settings`: the complete effective settings, as TOML that can be fed back."""

import typer

from pmafl.commands import SetOption, SourceArgument, assignments


def settings(source: SourceArgument = "mnist", set_: SetOption = None) -> None:
    """Print the complete effective settings of a preset, a TOML file, a run directory or - as TOML."""
    from pmafl.settings import load

    typer.echo(load(source, assignments(set_)).to_toml(), nl=False)
