"""A user's own model, algorithm, policy or data set, named in the settings as ``package.module:name``."""

import importlib
import os
import sys
from collections.abc import Iterable
from typing import Any

from pmafl.errors import InputError


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
        return getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise InputError(f"{setting} = {path!r}: there is no module {error.name!r} to import") from None
    except AttributeError:
        raise InputError(f"{setting} = {path!r}: module {module_name!r} has no {name!r}") from None
    except Exception as error:
        raise InputError(f"{setting} = {path!r}: importing it failed: {error}") from error
