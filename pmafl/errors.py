"""The two ways in which a command can end without a result.

Everything a user can get wrong raises `InputError` with one complete line; the command line turns it into
that line and exit code 2. A well-posed question without an answer raises `NoAnswer`: exit code 1.
"""


class InputError(ValueError):
    """Bad input: one line that says what came, where, and what would be right."""


class NobodyInTime(InputError):
    """Settings under which no device can finish a round before its deadline."""


class NoAnswer(Exception):
    """The input is fine, but the problem has no answer; the message says why."""
