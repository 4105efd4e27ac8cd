"""A user's own model, algorithm, policy or data set, named in the settings as ``package.module:name``.

What goes wrong in such code becomes one line that names the culprit, by `blaming`; the original exception
stays its cause, for those who call pmafl from Python.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pmafl.errors import InputError, NoAnswer

OWN_FOLDER = str(Path(__file__).parent) + os.sep
LONGEST_MESSAGE = 300  # of somebody else's exception; characters


def search(folders: Iterable[str]) -> None:
    """Import plug-ins from these folders first, then from the working directory."""
    _search_working_directory()
    for folder in reversed(list(folders)):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def _search_working_directory() -> None:
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed: nothing can be imported from it
        return
    if here not in sys.path:  # the installed program starts without the user's own folder
        sys.path.insert(0, here)


def load_object(path: str, setting: str) -> Any:
    """The object at ``package.module:name``; `setting` is the key to blame when there is none."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise InputError(f"{setting} = {path!r}: must be package.module:name")
    _search_working_directory()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(f"{setting} = {path!r}: there is no module {error.name!r} to import") from None
    except Exception as error:
        raise InputError(f"{setting} = {path!r}: importing it failed: {describe(error)}") from error
    try:
        return getattr(module, name)
    except AttributeError:
        raise InputError(f"{setting} = {path!r}: module {module_name!r} has no {name!r}") from None


def files_of(path: str) -> dict[str, bytes]:
    """The user's own code behind ``package.module:name``, by file, for a machine that may not have it.

    What is installed is left out: it has to be installed there too.
    """
    top = sys.modules.get(path.partition(":")[0].partition(".")[0])
    home = Path(getattr(top, "__file__", None) or "").resolve()
    if not home.is_file() or home.is_relative_to(sys.prefix) or str(home).startswith(OWN_FOLDER):
        return {}
    if home.name != "__init__.py":
        return {home.name: home.read_bytes()}
    folder = home.parent.parent
    return {str(file.relative_to(folder)): file.read_bytes() for file in home.parent.rglob("*.py")}


@contextmanager
def blaming(culprit: str) -> Iterator[None]:
    """Whatever is raised inside, as one line that begins with the culprit."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{culprit}: {error}") from error
    except NoAnswer as error:
        raise NoAnswer(f"{culprit}: {error}") from error
    except Exception as error:
        raise InputError(f"{culprit}: raised {describe(error)}") from error


def describe(error: Exception) -> str:
    """An exception's type, message and place on one line."""
    message = " ".join(str(error).split())
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 3] + "..."
    kind = type(error).__name__
    return f"{kind}: {message} ({_place(error)})" if message else f"{kind} ({_place(error)})"


def _place(error: Exception) -> str:
    """File and line: the last in the user's own file, whatever it called; in pmafl the last of all."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [frame for frame in frames if not frame.filename.startswith(OWN_FOLDER)]
    file = (foreign[0] if foreign else frames[-1]).filename
    line = [frame.lineno for frame in frames if frame.filename == file][-1]
    return f"{Path(file).name}:{line}"
