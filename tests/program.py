"""The program as a user calls it, but in this process, which has imported everything already."""

import contextlib
import io
import os
import sys
from types import SimpleNamespace
from unittest import mock

from pmafl.cli import main


def pmafl(*arguments, stdin=""):
    """Its exit code and what it wrote; what a process would show as a traceback is raised."""
    words = ["pmafl", *(os.fsdecode(argument) for argument in arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    return SimpleNamespace(returncode=code, stdout=stdout, stderr=stderr)
