"""The command line: registers the commands and turns errors into one line and an exit code.

Exit codes: 0 done, 1 the problem has no answer, 2 bad input, 130 interrupted.
"""

import io
import os
import sys
from typing import Annotated

import click
import typer

from pmafl.commands.bound import bound
from pmafl.commands.compare import compare
from pmafl.commands.data import data
from pmafl.commands.efficiency import efficiency
from pmafl.commands.export import export
from pmafl.commands.leaderboard import leaderboard
from pmafl.commands.plan import plan
from pmafl.commands.reproduce import reproduce
from pmafl.commands.run import run
from pmafl.commands.schedule import schedule
from pmafl.commands.serve import serve
from pmafl.commands.settings import settings
from pmafl.commands.view import view
from pmafl.errors import InputError, NoAnswer

app = typer.Typer(
    help="Federated learning over a wireless cell with battery-powered devices.",
    no_args_is_help=True,
    add_completion=False,
    suggest_commands=False,  # click suggests already
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # brackets are text, and lines of a paragraph flow
)
COMMANDS = (
    run,
    view,
    compare,
    leaderboard,
    export,
    reproduce,
    plan,
    efficiency,
    bound,
    schedule,
    serve,
    settings,
    data,
)
for command in COMMANDS:
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        from pmafl import __version__

        typer.echo(f"pmafl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the `pmafl` program."""
    if isinstance(
        sys.stdout, io.TextIOWrapper
    ):  # a file's name may be anything: better escaped than not at all
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as help_text:
        help_text.show()
        sys.exit(2)
    except click.ClickException as error:
        sys.exit(_complain(error.format_message(), 2))
    except InputError as error:
        sys.exit(_complain(error, 2))
    except NoAnswer as error:
        sys.exit(_complain(error, 1))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_complain("interrupted", 130))
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        command = next(word for word in sys.argv[1:] if not word.startswith("-"))
        sys.exit(_complain(f"pmafl {command} needs PyTorch: pip install 'pmafl[learn]'", 2))
    except OSError as error:  # a path that cannot be used, a full disk
        where = f"{error.filename!s:.200}: " if error.filename else ""
        sys.exit(_complain(f"{where}{error.strerror or error}", 2))


def _complain(message: object, code: int) -> int:
    print("error:", *str(message).split("\n"), file=sys.stderr)
    return code
