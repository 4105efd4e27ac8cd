"""The reference of commands, from the program itself."""

import re

import click
import typer

from pmafl.cli import app


def text() -> str:
    program = typer.main.get_command(app)
    assert isinstance(program, click.Group)
    return "\n\n".join(_command(name, command) for name, command in program.commands.items())


def _command(name: str, command: click.Command) -> str:
    with click.Context(command, info_name=f"pmafl {name}") as context:
        usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f"## pmafl {name}",
        "",
        "```text",
        f"pmafl {name} {usage}",
        "```",
        "",
        _prose(command.help or ""),
        "",
    ]
    lines += ["| argument or option | takes | default | |", "|---|---|---|---|"]
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        names = " ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
        said = " ".join((getattr(parameter, "help", None) or "").split())
        if isinstance(parameter, click.Argument):
            names = f"`{parameter.make_metavar(click.Context(command))}`".replace("[", "").replace("]", "")
        takes = "" if isinstance(parameter, click.Argument) else _takes(parameter)
        cells = (names, takes, _default(parameter), said)
        lines.append("| " + " | ".join(_cell(value) for value in cells) + " |")
    return "\n".join(lines)


def _prose(help_text: str) -> str:
    """Paragraphs; what is not to be wrapped stays as it is."""
    paragraphs = []
    for paragraph in help_text.replace("\b\n", "\b").split("\n\n"):
        if paragraph.startswith("\b"):
            paragraphs.append("```text\n" + paragraph.strip("\b\n") + "\n```")
        else:
            paragraphs.append(_options_as_code(" ".join(paragraph.split())))
    return "\n\n".join(paragraphs)


def _takes(parameter: click.Parameter) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{choice}`" for choice in kind.choices)
    words = f"`{parameter.metavar or kind.name.upper()}`"
    if isinstance(kind, click.IntRange | click.FloatRange):
        words = f"`{parameter.metavar or 'NUMBER'}`, {_limits(kind)}"
    return words + (", repeated" if parameter.multiple else "")


def _limits(kind: "click.IntRange | click.FloatRange") -> str:
    if kind.min is not None and kind.max is not None:
        return f"{kind.min} to {kind.max}"
    return f"at least {kind.min}" if kind.min is not None else f"at most {kind.max}"


def _default(parameter: click.Parameter) -> str:
    if parameter.required:
        return "needed"
    value = parameter.default
    if value is None or value == "" or value is False or callable(value) or "UNSET" in repr(value):
        return ""
    if value is True:
        return f"`{parameter.opts[0]}`"
    return f"`{value}`"


def _cell(value: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", _options_as_code(value))


def _options_as_code(words: str) -> str:
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", words)
