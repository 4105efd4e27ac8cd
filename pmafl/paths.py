"""Which settings name files and folders, where relative ones start, and what a run directory keeps of them.

A relative path in a TOML file starts at that file's folder, one in an override at the working directory; what
is loaded holds absolute paths. A plug-in is looked for in the same folders, and the one that has it joins
``run.plugin_path``. A run directory gets copies of small input files, under paths relative to itself, so that
it can be moved; large files, folders and plug-ins stay where they are.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable, Mapping
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmafl import files
from pmafl.errors import InputError

if TYPE_CHECKING:
    from pmafl.settings import Settings

PATHS = ("cell.gain_trace", "data.directory")
DATASET = "data.dataset"  # a path where `is_path` says so
FOLDERS = "run.plugin_path"
PLUGINS = ("policy.name", "learning.algorithm", "learning.model", DATASET)  # where they hold a colon
INPUTS = "inputs"  # in a run directory: the copies
LARGEST_COPY_BYTES = 16_000_000

Origins = dict[str, Path]  # settings that name something, and the folder in which their relative paths start


def is_path(dataset: str) -> bool:
    """Whether a data set is named by a path: a .npz or .csv file, or a folder, which has a slash in it."""
    return dataset.endswith((".npz", ".csv")) or "/" in dataset or os.sep in dataset


def origins_of(tree: Mapping[str, Any], folder: Path) -> Origins:
    """The settings that a tree in `folder` has and that may name files."""
    keys = {*PATHS, *PLUGINS, FOLDERS}
    return {key: folder for key in keys if get(tree, key) is not None}


def origins_of_overrides(overrides: Iterable[str]) -> Origins:
    """The settings that overrides by dotted key replace, alone or with their whole section."""
    keys, replaced = {*PATHS, *PLUGINS, FOLDERS}, set(overrides)
    return {key: Path() for key in keys if key in replaced or key.partition(".")[0] in replaced}


def make_absolute(tree: Mapping[str, Any], origins: Origins) -> None:
    """Replace relative paths in a complete tree, and add the folders in which its plug-ins were found.

    Values of a wrong type are left for the validation to name.
    """
    for key in PATHS:
        if isinstance(value := get(tree, key), str) and value:
            _set(tree, key, absolute(origins.get(key, Path()), value))
    dataset = get(tree, DATASET)
    if isinstance(dataset, str) and is_path(dataset) and not get(tree, "data.directory"):
        _set(tree, DATASET, absolute(origins.get(DATASET, Path()), dataset))
    named = get(tree, FOLDERS) or []
    if not isinstance(named, list | tuple) or not all(isinstance(folder, str) for folder in named):
        return
    folders = [absolute(origins.get(FOLDERS, Path()), folder) for folder in named]
    for key in PLUGINS:
        value = get(tree, key)
        if isinstance(value, str) and ":" in value and not (key == DATASET and is_path(value)):
            places = [*folders, absolute(origins.get(key, Path()), ""), absolute(Path(), "")]
            found = next((place for place in places if _holds(place, value.partition(":")[0])), None)
            if found and found not in folders:
                folders.append(found)
    if folders and isinstance(tree.get("run"), dict):
        _set(tree, FOLDERS, folders)


def absolute(folder: Path, path: str) -> str:
    """A path that may be relative to a folder, or to a home directory (~), as an absolute one."""
    try:
        return os.path.abspath(folder / os.path.expanduser(path))
    except FileNotFoundError:
        raise InputError(
            f"{path!r} is relative to a working directory that is gone; change to one that exists"
        ) from None


def _holds(folder: str, module: str) -> bool:
    """Whether a module could be imported from a folder, as far as its files tell."""
    path = os.path.join(folder, *module.split("."))
    starts = (path, os.path.join(path, "__init__"))
    return any(os.path.isfile(start + suffix) for start in starts for suffix in all_suffixes())


def get(tree: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key; None where it is not there."""
    section, _, name = key.partition(".")
    table = tree.get(section)
    return table.get(name) if isinstance(table, Mapping) else None


def _set(tree: Mapping[str, Any], key: str, value: Any) -> None:
    section, _, name = key.partition(".")
    tree[section][name] = value


def keep(settings: Settings, directory: Path) -> Settings:
    """Copy the small input files into a run directory; the settings as they are written there."""
    for origin in _files(settings).values():
        copy = directory / INPUTS / origin.name
        if origin.is_file() and origin.stat().st_size <= LARGEST_COPY_BYTES and not _same(origin, copy):
            _copy(origin, copy)
    return _with_copies(settings, directory, Path())


def kept(settings: Settings, directory: Path) -> Settings:
    """What settings become in a run directory that keeps their files; to hold them against those in it.

    A file that has changed since, or another one of the same name, is not what is kept there.
    """
    return _with_copies(settings, directory, Path(absolute(directory, "")))


def _with_copies(settings: Settings, directory: Path, start: Path) -> Settings:
    """The settings with the copies in place of their files, where there are any, as paths from `start`."""
    changes: dict[str, dict[str, str]] = {}
    for key, origin in _files(settings).items():
        copy = directory / INPUTS / origin.name
        if copy.is_file() and (not origin.exists() or _same(origin, copy)):
            section, _, name = key.partition(".")
            changes.setdefault(section, {})[name] = str(start / INPUTS / origin.name)
            if key == DATASET:  # or the path would start there
                changes[section]["directory"] = ""
    sections = {name: getattr(settings, name).model_copy(update=values) for name, values in changes.items()}
    return settings.model_copy(update=sections)


def _files(settings: Settings) -> dict[str, Path]:
    """The files that settings name, by their key."""
    found = {}
    if settings.cell.gain_trace:
        found["cell.gain_trace"] = Path(settings.cell.gain_trace)
    if is_path(settings.data.dataset):
        found[DATASET] = Path(settings.data.directory, settings.data.dataset).expanduser()
    return found


def _same(origin: Path, copy: Path) -> bool:
    return copy.is_file() and filecmp.cmp(origin, copy, shallow=False)


def _copy(origin: Path, copy: Path) -> None:
    """All of a file or nothing, and on disk before the settings that name it."""
    files.make_folder(copy.parent)
    files.write_atomically(copy, origin.read_bytes())
