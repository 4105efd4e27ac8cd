"""Real devices behind Flower, as the round loop sees them.

They are asked for their profile before the decision, for their upload after it, and for their score. What
they hold stays with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from pmafl import data, runs
from pmafl.devices import Arrays, Report, Result
from pmafl.errors import InputError
from pmafl.flower.conduct import Conduct, Offence
from pmafl.flower.limits import DECLARED, limits_of
from pmafl.flower.messages import NO_LOSS, Order, Profile, Score, Task, Upload
from pmafl.flower.nodes import Nodes
from pmafl.learning import form_of
from pmafl.learning.evaluation import Metrics, metrics_of
from pmafl.learning.method import LearningState, Method, Trained
from pmafl.scheduling import Decision
from pmafl.settings import Settings
from pmafl.wireless import Fleet
from pmafl.world import World


class Federation:
    """The devices of one run directory on the nodes of a grid. They remember what devices are.

    Beside the simulator's, a record has lists that follow `scheduled`, with None for devices that failed:
    `train_time_s` of training on the device's clock; `measured`, whether the compute energy was, or is the
    model's; `upload_bytes` of the device's message. It also has

        answered: devices that answered before the decision; the others could not be scheduled.
        nodes: Flower's numbers of the nodes of `answered`.
        scored: devices that were tested in this round, with `device_accuracy` (`device_error` where values
            are predicted) and `device_loss` for each.
        scored_before: devices that were not, and count in the round's metrics with their last known score.
        unscored: devices that were never tested, and are left out.
        misbehaved: who sent what no honest device sends, and what.
        set_aside: who was not asked in this round, for what was sent in an earlier one.
    """

    def __init__(self, grid: Grid, world: World, directory: Path, grace_s: float, wait_s: float) -> None:
        assert world.method is not None, "a federation learns"
        self._directory, self._world, self._method = directory, world, world.method
        self._run, self._written = _read(directory)
        self._fleet = world.fleet
        settings, dataset = world.settings, data.known_data(world.settings.data)
        task = Task(
            run=self._run,
            round=0,
            settings=settings.to_toml(),
            input_shape=list(dataset.input_shape),
            classes=dataset.outputs,
            target_mean=list(dataset.target_mean),
            target_std=list(dataset.target_std),
            mean=[float(value) for value in dataset.mean],
            std=[float(value) for value in dataset.std],
        )
        self._nodes = Nodes(grid, task, limits_of(world, settings.cell.deadline_s + grace_s), wait_s)
        self._profiles: dict[int, Profile] = {}
        self._scores: dict[int, Score] = {}  # the last of each device
        self._scored: dict[int, Score] | None = None  # in this round
        self._recalled = False
        self._score_name = "device_error" if dataset.regression else "device_accuracy"

    def gather(self) -> None:
        """Wait for the nodes."""
        self._nodes.gather()

    def restore(self, memory: Arrays) -> None:
        if memory:
            self._fleet = replace(self._world.fleet, **memory)

    def memory(self) -> Arrays:
        return {name: getattr(self._fleet, name) for name in DECLARED}

    def report(self, round_index: int) -> Report:
        self._recall(round_index)
        self._profiles = self._nodes.profiles(round_index)
        self._scored = None
        self._remember(self._profiles)
        gain, available = np.zeros(self._fleet.devices), np.zeros(self._fleet.devices, bool)
        for device, profile in self._profiles.items():
            gain[device], available[device] = profile.channel_gain, True
        return Report(self._fleet, gain, available)

    def train(self, round_index: int, decision: Decision, learning: LearningState | None) -> Iterator[Result]:
        assert learning is not None, "a federation learns"
        orders = {device: _order(self._world, decision, device) for device in decision.scheduled_devices}
        server = self._method.received(learning.server)
        method = self._method
        uploads = self._nodes.train(round_index, orders, self._profiles, server, method.form, method.read)
        for device, upload in uploads.items():  # in the order of their numbers: the same bits every time
            yield _result(device, upload)

    def evaluate(self, round_index: int, learning: LearningState, failed: Iterable[int]) -> Metrics | None:
        """Over all devices that were ever tested: one that cannot be reached any more has not got better."""
        able = [device for device in self._profiles if device not in set(failed)]
        self._scored = self._nodes.evaluate(round_index, able, self._method.received(learning.server))
        self._scores.update(self._scored)
        known = sorted(self._scores)
        if not known:
            return None
        scores = np.array([(self._scores[device].accuracy, self._scores[device].loss) for device in known])
        every = np.full((self._fleet.devices, 2), nan)
        every[known] = scores
        regression = self._method.model.objective.regression
        metrics, score = metrics_of(scores, regression=regression), every[:, 0]
        accuracy, error = (None, score) if regression else (score, None)
        return replace(metrics, device_accuracy=accuracy, device_error=error, device_loss=every[:, 1])

    def notes(self, round_index: int) -> Mapping[str, Any]:
        conduct, answered, scored = self._nodes.conduct, list(self._profiles), self._scored
        tested, evaluated = scored or {}, scored is not None
        return {
            "answered": answered,
            "nodes": [self._nodes.node_of[device] for device in answered],
            "scored": list(tested),
            self._score_name: [score.accuracy for score in tested.values()],
            "device_loss": [score.loss for score in tested.values()],
            "scored_before": sorted(self._scores.keys() - tested.keys()) if evaluated else [],
            "unscored": sorted(set(range(self._fleet.devices)) - self._scores.keys()) if evaluated else [],
            "misbehaved": [asdict(offence) for offence in conduct.of_round(round_index)],
            "set_aside": [asdict(o) for o in conduct.aside(round_index).values() if o.round < round_index],
        }

    def _recall(self, rounds: int) -> None:
        """Know what the records of the rounds before say of nodes, when a server that was killed goes on."""
        if self._recalled:
            return
        self._recalled = True
        records = runs.read_records(self._directory)[:rounds] if rounds else []
        for record in records:
            self._nodes.node_of.update(zip(record["answered"], record["nodes"], strict=True))
            scores = map(Score, record[self._score_name], record["device_loss"])
            self._scores.update(zip(record["scored"], scores, strict=True))
        offences = [Offence(**offence) for record in records for offence in record["misbehaved"]]
        self._nodes.conduct = Conduct(offences)

    def _remember(self, profiles: Mapping[int, Profile]) -> None:
        """Keep what devices say about themselves: queues of absent devices still need budgets."""
        now = {name: getattr(self._fleet, name).copy() for name in DECLARED}
        for device, profile in profiles.items():
            for name in DECLARED:
                now[name][device] = getattr(profile, name)
        self._fleet = replace(self._fleet, **now)
        if (said := _as_lists(self._fleet)) != self._written:
            _write(self._directory, self._run, said)
            self._written = said


def make_method(settings: Settings) -> Method:
    """The learning side of the server, which has no data."""
    dataset = data.known_data(settings.data)
    form = form_of(dataset, settings.data.inputs)
    return Method(settings.learning, dataset.input_shape, dataset.outputs, settings.run.seed, form)


def _order(world: World, decision: Decision, device: int) -> Order:
    names = [entry.name for entry in fields(Order) if entry.name != "deadline_s"]
    mine = {name: float(getattr(decision, name)[device]) for name in names}
    return Order(deadline_s=world.settings.cell.deadline_s, **mine)


def _result(device: int, upload: Upload) -> Result:
    report = upload.report
    loss = nan if report.train_loss == NO_LOSS else report.train_loss
    notes = {
        "train_time_s": report.train_time_s,
        "measured": bool(report.measured),
        "upload_bytes": upload.size_bytes,
    }
    energy_j = report.compute_energy_j, report.upload_energy_j
    return Result(device, Trained(upload.weights, {}, loss), energy_j, notes)


def name_run(directory: Path, identity: runs.Identity, fleet: Fleet) -> None:
    """Write down that a new run is a federation's: devices keep their heads under its name."""
    _write(directory, identity.run, _as_lists(fleet))


def _as_lists(fleet: Fleet) -> dict[str, list[float]]:
    return {name: getattr(fleet, name).tolist() for name in DECLARED}


def _read(directory: Path) -> tuple[str, dict[str, list[float]]]:
    """The name of a run and what its devices said, from a file that is whole and belongs to it."""
    path, identity = directory / runs.FEDERATION, runs.identify(directory)
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        whole = known["digest"] == _digest(known["run"], known["fleet"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}); put it back from a copy") from None
    if not whole:
        raise InputError(f"{path} is damaged (its digest does not fit); put it back from a copy")
    if known["run"] != identity.run:
        raise InputError(f"{path} belongs to another run ({known['run']!s:.8}); put it back from a copy")
    return identity.run, known["fleet"]


def _write(directory: Path, run: str, fleet: Mapping[str, list[float]]) -> None:
    known = {"run": run, "fleet": fleet, "digest": _digest(run, fleet)}
    runs.write_atomically(directory / runs.FEDERATION, (json.dumps(known, indent=2) + "\n").encode())


def _digest(run: str, fleet: Mapping[str, list[float]]) -> str:
    return hashlib.sha256(json.dumps([run, fleet], sort_keys=True).encode()).hexdigest()
