"""The server's app: from Flower's run configuration to a run directory, and on to the end of its run.

A server that was killed goes on from its last round when it is started again with the same directory.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pmafl import runs
from pmafl.errors import InputError, NoAnswer
from pmafl.flower.federation import Federation, make_method, name_run
from pmafl.learning import threads
from pmafl.paths import kept
from pmafl.rounds import Record
from pmafl.settings import Settings, load, parse_assignment
from pmafl.world import World, wireless_world

logger = logging.getLogger("flwr.pmafl")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    try:
        summary = run(grid, context.run_config)
    except (InputError, NoAnswer) as error:
        logger.error("error: %s", error)
        raise
    logger.info("done: %s", json.dumps(summary))


@threads()
def run(grid: Grid, config: Mapping[str, Any]) -> dict[str, Any]:
    """Run a federation from where its directory stands to its end; return its summary."""
    directory, settings = Path(str(config["out"])).expanduser(), read_config(config)
    try:
        runs.make_folder(directory)
        with runs.locked(directory, wait=True):  # for a server that was killed and is still dying
            prepare(directory, settings)
            if (finished := runs.read_summary(directory)) is not None:
                return finished
            found = runs.recover(directory, runs.identify(directory), one_round_back=True)
            world = replace(wireless_world(settings), settings=settings, method=make_method(settings))
            federation = Federation(grid, world, directory, float(config["grace-s"]), float(config["wait-s"]))
            federation.gather()
            this = runs.Run(directory, settings, world)
            return runs.carry_on(this, found, federation, [_say], every_round=True)
    except OSError as error:
        raise InputError(f"{directory}: {error.strerror or error}; go on with the same flwr run") from error


def read_config(config: Mapping[str, Any]) -> Settings:
    """The settings that the run configuration asks for."""
    overrides = dict(parse_assignment(text) for text in shlex.split(str(config["set"])))
    asked = load(str(config["settings"]), overrides)
    if asked.run.learning == "none":
        raise InputError('run.learning = "none": devices have nothing to do; use pmafl run')
    run = asked.run.model_copy(update={"checkpoint_every": 1})  # devices remember one round back
    return asked.model_copy(update={"run": run})


def prepare(directory: Path, settings: Settings) -> None:
    """Make the run directory, where no round was run yet; else see that it holds this run."""
    if not runs.remains(directory):
        fleet = wireless_world(settings).fleet
        name_run(directory, runs.write_new(directory, settings), fleet)
        return
    if runs.read_settings(directory) != kept(settings, directory):
        raise InputError(f"{directory} holds a run with other settings; choose another out")
    if not (directory / runs.FEDERATION).is_file():
        raise InputError(f"{directory} holds a run of the simulator; choose another out")


def _say(world: World, record: Record) -> None:
    logger.info(
        "round %d/%d: %d of %d scheduled devices delivered, accuracy %s",
        record.round + 1,
        world.settings.run.rounds,
        len(record.scheduled) - len(record.failed),
        len(record.scheduled),
        "not measured" if record.accuracy is None else f"{record.accuracy:.1%}",
    )
