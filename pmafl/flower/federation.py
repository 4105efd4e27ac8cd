"""The rounds of a federation: the simulator's, with devices that are asked instead of computed.

Problem, policy, aggregation, queues and record are the simulator's own functions. Devices are asked for their
profile before the decision, for their upload after it, and for their score.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from pmafl import data, runs
from pmafl.brief import brief
from pmafl.flower.messages import Order, Profile, Task, Upload
from pmafl.flower.nodes import Nodes
from pmafl.learning.algorithms import find_algorithm
from pmafl.learning.evaluation import metrics_of
from pmafl.learning.model import build_model
from pmafl.learning.quantise import encode
from pmafl.learning.rounds import Aggregate, LearningState
from pmafl.scheduling import Decision, ask, queues
from pmafl.simulation import Record, State, World, evaluation_is_due, record_round, round_problem
from pmafl.streams import stream
from pmafl.wireless.fleet import Fleet
from pmafl.wireless.problem import RoundProblem


@brief
@dataclass(frozen=True)
class FederationRecord(Record):
    """A round with real devices. Lists follow `scheduled`, with None for devices that failed.

    Attributes:
        answered: devices that answered before the decision; the others could not be scheduled.
        train_time_s: time of training on the device's clock.
        measured: whether the compute energy was measured on the device, or is the model's.
        upload_bytes: size of the device's message.
    """

    answered: list[int] = field(default_factory=list)
    train_time_s: list[float | None] = field(default_factory=list)
    measured: list[bool | None] = field(default_factory=list)
    upload_bytes: list[int | None] = field(default_factory=list)


class Federation:
    """The rounds of one run directory on the nodes of a grid."""

    def __init__(self, grid: Grid, world: World, directory: Path, grace_s: float, wait_s: float) -> None:
        self._directory, self._world = directory, world
        known = json.loads((directory / runs.FEDERATION).read_text(encoding="utf-8"))
        self._run: str = known["run"]
        for name, values in known["fleet"].items():
            getattr(world.fleet, name)[:] = values
        settings = world.settings
        dataset = data.KNOWN.get(settings.data.dataset) or data.load(
            settings.data.dataset, settings.data.directory
        )
        task = Task(
            run=self._run,
            round=0,
            settings=settings.to_toml(),
            input_shape=list(dataset.input_shape),
            classes=dataset.classes,
            mean=[float(value) for value in dataset.mean],
            std=[float(value) for value in dataset.std],
        )
        timeout_s = settings.cell.deadline_s + grace_s
        self._nodes = Nodes(grid, task, world.fleet.devices, timeout_s, wait_s)
        self._shape, self._classes = dataset.input_shape, dataset.classes

    def start(self) -> State:
        """The state before the first round, once the nodes are there. Heads live on the devices."""
        self._nodes.gather()
        learning, seed = self._world.settings.learning, self._world.settings.run.seed
        model = build_model(learning, self._shape, self._classes, stream(seed, "weights"))
        shared = find_algorithm(learning).shared(model.split, model.parameters)
        queue = queues.start(self._world.fleet.devices, self._world.settings.policy.queue_start_j)
        return State(0, queue, LearningState(model.flat[:shared].clone(), model.flat[shared:].clone()))

    def advance(self, world: World, state: State) -> tuple[State, FederationRecord]:
        """One round. A device that got an order is charged for it, whether or not its upload arrived.

        Nobody knows how far a device came that failed. A queue that is too long costs it a round, one that is
        too short its battery.
        """
        learning = state.learning
        assert learning is not None
        profiles = self._nodes.profiles(state.round)
        self._remember(world.fleet, profiles)
        decision = decide(world, state, profiles)
        orders = {device: _order(world, decision, device) for device in decision.scheduled_devices}
        like = encode(learning.extractor, world.settings.learning.upload_bits_per_parameter)
        uploads = self._nodes.train(state.round, orders, learning.extractor, like)

        aggregate = Aggregate(learning.extractor)
        for device, upload in uploads.items():  # in the order of their numbers: the same bits every time
            aggregate.add(upload.payload, profiles[device].samples)
        learning = replace(learning, extractor=aggregate.result())
        decision = _charged(decision, uploads)
        queue = queues.advance(state.queues, decision.energy_j, world.fleet.budget_j)
        failed = orders.keys() - uploads.keys()
        metrics = None
        if evaluation_is_due(world, state.round):
            able = [device for device in profiles if device not in failed]
            scores = self._nodes.evaluate(state.round, able, learning.extractor).values()
            metrics = metrics_of(np.array([(s.accuracy, s.loss) for s in scores])) if scores else None
        record = record_round(state.round, decision, world, queue, metrics, failed)
        return State(state.round + 1, queue, learning), _with_uploads(record, list(profiles), uploads)

    def _remember(self, fleet: Fleet, profiles: Mapping[int, Profile]) -> None:
        """Keep what devices say about themselves, in place: queues of absent devices still need budgets."""
        before = _as_lists(fleet)
        for device, profile in profiles.items():
            for name in before:
                getattr(fleet, name)[device] = getattr(profile, name)
        if (now := _as_lists(fleet)) != before:
            _write(self._directory, self._run, now)


def decide(world: World, state: State, profiles: Mapping[int, Profile]) -> Decision:
    """The policy's decision about the devices that answered."""
    present = np.array(sorted(profiles))
    gain = np.zeros(world.fleet.devices)
    gain[present] = [profiles[device].channel_gain for device in sorted(profiles)]
    problem = round_problem(world, state, gain)
    rng = stream(world.settings.run.seed, "policy", state.round)
    decision = ask(world.policy, _part(problem, present), rng, world.settings.policy.name, state.round)
    return _over_all(decision, present, problem.devices)


def _part(problem: RoundProblem, devices: Any) -> RoundProblem:
    arrays = {name: value[devices] for name, value in _arrays(problem).items()}
    return replace(problem, **arrays)


def _over_all(decision: Decision, present: Any, devices: int) -> Decision:
    full: dict[str, Any] = {}
    for name, values in _arrays(decision).items():
        full[name] = np.zeros(devices, dtype=values.dtype)
        full[name][present] = values
    return replace(decision, **full)


def _arrays(entity: RoundProblem | Decision) -> dict[str, Any]:
    values = {entry.name: getattr(entity, entry.name) for entry in fields(entity)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _order(world: World, decision: Decision, device: int) -> Order:
    names = [entry.name for entry in fields(Order) if entry.name != "deadline_s"]
    mine = {name: float(getattr(decision, name)[device]) for name in names}
    return Order(deadline_s=world.settings.cell.deadline_s, **mine)


def _charged(decision: Decision, uploads: Mapping[int, Upload]) -> Decision:
    """The decision with the energies that devices reported; a device that failed keeps what was planned."""
    compute_j, upload_j = decision.compute_energy_j.copy(), decision.upload_energy_j.copy()
    for device, upload in uploads.items():
        compute_j[device] = upload.report.compute_energy_j
        upload_j[device] = upload.report.upload_energy_j
    return replace(decision, compute_energy_j=compute_j, upload_energy_j=upload_j)


def _with_uploads(record: Record, answered: list[int], uploads: Mapping[int, Upload]) -> FederationRecord:
    arrived = [uploads.get(device) for device in record.scheduled]
    return FederationRecord(
        **vars(record),
        answered=answered,
        train_time_s=[upload.report.train_time_s if upload else None for upload in arrived],
        measured=[bool(upload.report.measured) if upload else None for upload in arrived],
        upload_bytes=[upload.size_bytes if upload else None for upload in arrived],
    )


def name_run(directory: Path, fleet: Fleet) -> None:
    """Give a new run the name under which devices keep their heads, and a first idea of the devices."""
    _write(directory, uuid.uuid4().hex, _as_lists(fleet))


def _as_lists(fleet: Fleet) -> dict[str, list[float]]:
    names = ("samples", "cycles_per_sample", "max_frequency_hz", "max_power_w", "budget_j")
    return {name: getattr(fleet, name).tolist() for name in names}


def _write(directory: Path, run: str, fleet: Mapping[str, list[float]]) -> None:
    content = json.dumps({"run": run, "fleet": fleet}, indent=2) + "\n"
    runs.write_atomically(directory / runs.FEDERATION, content.encode())
