"""A run directory, opened: its settings, world, records and summary, each read or built once.

>>> import tempfile, pmafl
>>> directory = tempfile.mkdtemp()
>>> settings = pmafl.load_settings("mnist", {"run.learning": "none", "run.rounds": 2})
>>> pmafl.create_run(directory, settings)
>>> summary = pmafl.execute_run(directory)
>>> run = pmafl.open_run(directory)
>>> run.summary["rounds"], run.settings.policy.name, len(run.records)
(2, 'set-expansion', 2)
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmafl import files
from pmafl.errors import InputError
from pmafl.runs.columns import COLUMNS, long_table, read_columns
from pmafl.runs.identity import IDENTITY, SETTINGS
from pmafl.runs.records import read_records
from pmafl.runs.summary import read_summary
from pmafl.settings import Settings, load
from pmafl.wireless import Array, Fleet
from pmafl.world import World, build_world, wireless_world

if TYPE_CHECKING:
    from torch import nn

Folder = str | os.PathLike[str]
FEDERATION = "federation.json"  # in runs on real devices: the run's name, and what devices said of themselves


class Run:
    """What a run directory holds. A part is read when it is first asked for and then kept, so a run that
    still goes on is opened again to see its later rounds.

    Whoever has settings and world already, as the process that runs the directory, gives them.
    """

    def __init__(
        self,
        directory: Folder,
        settings: Settings | None = None,
        world: World | None = None,
    ) -> None:
        self.directory = Path(directory)
        if settings is not None:
            self.settings = settings
        if world is not None:
            self.world = world

    def __repr__(self) -> str:
        return f"<Run {self.directory}>"

    def hold(self, **parts: Any) -> None:
        """Take these parts, which are what the directory holds now, and forget all others."""
        directory = self.directory
        vars(self).clear()
        vars(self).update(parts, directory=directory)

    @cached_property
    def settings(self) -> Settings:
        """The complete settings."""
        return read_settings(self.directory)

    @cached_property
    def world(self) -> World:
        """What follows from the settings, with the data and the network."""
        return build_world(self.settings)

    @cached_property
    def wireless_world(self) -> World:
        """Its devices and channels: the world without its learning side, unless the whole one is there."""
        return vars(self).get("world") or wireless_world(self.settings)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rounds so far, a dict each."""
        return read_records(self.directory)

    @cached_property
    def records(self) -> Any:
        """The rounds so far for a person: a pandas DataFrame where pandas is installed, else the rows."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            return self.rows
        return pandas.DataFrame(self.rows)

    @cached_property
    def devices(self) -> Any:
        """What each device scored, spent and had in the evaluated rounds so far: a row per round and device.

        A pandas DataFrame where pandas is installed, else a dict with an array per column.
        """
        try:
            table = long_table(read_columns(self.directory))
        except FileNotFoundError:
            raise InputError(f"{self.directory} has no {COLUMNS}: no round of it was evaluated") from None
        try:
            return import_module("pandas").DataFrame(table)
        except ImportError:
            return table

    def model(self, device: int | None = None, rounds: int | None = None) -> nn.Module:
        """The trained network of a device, as it was after `rounds` rounds (left out: the last saved ones).

        Without a device it is the one that all have, where the algorithm makes one. Inputs are scaled as in
        training: ``run.world.task.dataset.scaled(x, run.settings.data.inputs)``.
        """
        from pmafl.runs.models import Models

        return Models(self, rounds).module(device)

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """The numbers of a finished run; None of one that is not."""
        return read_summary(self.directory)

    @cached_property
    def fleet(self) -> Fleet:
        """The devices: as real ones said of themselves, else as the settings say."""
        fleet, path = self.wireless_world.fleet, self.directory / FEDERATION
        if not path.is_file():
            return fleet
        try:
            said = json.loads(files.read_bytes(path))["fleet"]
            return replace(fleet, **{name: np.array(said[name], dtype=np.float64) for name in said})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged ({error})") from None

    @property
    def budget_j(self) -> Array:
        """Energy that each device may spend per round."""
        return self.fleet.budget_j


def open_run(run: Run | Folder) -> Run:
    """The run of a directory; what is no run directory, or has damaged settings, is refused at once."""
    if isinstance(run, Run):
        return run
    return Run(run, read_settings(run))


def read_settings(directory: Folder) -> Settings:
    """The settings of a run directory."""
    return load(find_settings(directory))


def find_settings(directory: Folder) -> Path:
    """The file of settings that makes a directory a run directory."""
    path = Path(directory) / SETTINGS
    if not path.is_file():
        kept = f"; {IDENTITY} has a copy of it" if (Path(directory) / IDENTITY).is_file() else ""
        raise InputError(f"{directory} is not a run directory: it has no {SETTINGS}{kept}")
    return path
