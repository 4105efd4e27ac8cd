"""The two ways in which a command can end without a result.

Everything a user can get wrong raises `InputError` with one complete line; the command line turns it into
that line and exit code 2. A well-posed question without an answer raises `NoAnswer`: exit code 1.
"""

import re

ESCAPE_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # colours of a terminal


class InputError(ValueError):
    """Bad input: one line that says what came, where, and what would be right."""


class NobodyInTime(InputError):
    """Settings under which no device can finish a round before its deadline."""


class NoAnswer(Exception):
    """The input is fine, but the problem has no answer; the message says why."""


def first_line(error: BaseException) -> str:
    """The first line that an error says, without colours; its kind if it says nothing."""
    lines = (line.strip() for line in ESCAPE_CODES.sub("", str(error)).splitlines())
    return next(filter(None, lines), type(error).__name__)
