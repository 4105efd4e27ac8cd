"""The program as a user calls it, but in this process, which has imported everything already."""

import contextlib
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from pmafl.cli import main

CHECKOUT = Path(__file__).parents[1]  # which has the packages too, in .venv


def pmafl(*arguments, stdin=""):
    """Its exit code and what it wrote; what a process would show as a traceback is raised."""
    known = set(sys.modules)
    words = ["pmafl", *(os.fsdecode(argument) for argument in arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "path", list(sys.path)),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            forget(set(sys.modules) - known)
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    return SimpleNamespace(returncode=code, stdout=stdout, stderr=stderr)


def forget(modules):
    """Files of a user's own may have the names of another test's; the project and its packages are none."""
    for name in modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(Path.cwd()) and not Path(file).is_relative_to(CHECKOUT):
            del sys.modules[name]
