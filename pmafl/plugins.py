"""A user's own model, algorithm, policy or data set, named in the settings as ``package.module:name``."""

import importlib
import os
import sys
from typing import Any

from pmafl.errors import InputError


def load_object(path: str, setting: str) -> Any:
    """The object at ``package.module:name``; `setting` is the key to blame when there is none."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise InputError(f"{setting} = {path!r}: must be package.module:name")
    if (here := os.getcwd()) not in sys.path:  # the installed program starts without the user's own folder
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise InputError(f"{setting} = {path!r}: there is no module {error.name!r} to import") from None
    except AttributeError:
        raise InputError(f"{setting} = {path!r}: module {module_name!r} has no {name!r}") from None
    except Exception as error:
        raise InputError(f"{setting} = {path!r}: importing it failed: {error}") from error
