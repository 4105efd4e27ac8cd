"""The rounds of a federation: the simulator's, with devices that are asked instead of computed.

Problem, policy, aggregation, queues and record are the simulator's own functions. Devices are asked for their
profile before the decision, for their upload after it, and for their score.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from pmafl import data, runs
from pmafl.brief import brief
from pmafl.errors import InputError
from pmafl.flower.conduct import Conduct, Offence
from pmafl.flower.limits import DECLARED, limits_of
from pmafl.flower.messages import Order, Profile, Score, Task, Upload
from pmafl.flower.nodes import Nodes
from pmafl.learning.aggregation import aggregate_for
from pmafl.learning.algorithms import find_algorithm
from pmafl.learning.evaluation import Metrics, metrics_of
from pmafl.learning.model import build_model
from pmafl.learning.quantise import encode
from pmafl.learning.rounds import LearningState
from pmafl.scheduling import Decision, Policy, ask, find_policy, find_unlimited_policy, queues
from pmafl.scheduling.uniform import uniform
from pmafl.simulation import Record, State, World, evaluation_is_due, record_round, round_problem
from pmafl.streams import stream
from pmafl.wireless.fleet import Fleet
from pmafl.wireless.problem import RoundProblem

UNIFORM_COUNT: int = signature(uniform).parameters["count"].default


@brief
@dataclass(frozen=True)
class FederationRecord(Record):
    """A round with real devices. Lists follow `scheduled`, with None for devices that failed.

    Attributes:
        answered: devices that answered before the decision; the others could not be scheduled.
        train_time_s: time of training on the device's clock.
        measured: whether the compute energy was measured on the device, or is the model's.
        upload_bytes: size of the device's message.
        nodes: Flower's numbers of the nodes of `answered`.
        scored: devices that were tested in this round, with `device_accuracy` and `device_loss` for each.
        scored_before: devices that were not, and count in the round's metrics with their last known score.
        unscored: devices that were never tested, and are left out.
        misbehaved: who sent what no honest device sends, and what.
        set_aside: who was not asked in this round, for what was sent in an earlier one.
    """

    answered: list[int] = field(default_factory=list)
    train_time_s: list[float | None] = field(default_factory=list)
    measured: list[bool | None] = field(default_factory=list)
    upload_bytes: list[int | None] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)
    device_accuracy: list[float] = field(default_factory=list)
    device_loss: list[float] = field(default_factory=list)
    scored_before: list[int] = field(default_factory=list)
    unscored: list[int] = field(default_factory=list)
    misbehaved: list[Offence] = field(default_factory=list)
    set_aside: list[Offence] = field(default_factory=list)


class Federation:
    """The rounds of one run directory on the nodes of a grid."""

    def __init__(self, grid: Grid, world: World, directory: Path, grace_s: float, wait_s: float) -> None:
        self._directory, self._world = directory, world
        limits = limits_of(world, world.settings.cell.deadline_s + grace_s)
        self._run, fleet = _read(directory)
        for name, values in fleet.items():
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
        self._nodes = Nodes(grid, task, limits, wait_s)
        self._scores: dict[int, Score] = {}  # the last of each device
        self._recalled = False
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
        self._recall(state.round)
        profiles = self._nodes.profiles(state.round)
        self._remember(world.fleet, profiles)
        decision = decide(world, state, profiles)
        orders = {device: _order(world, decision, device) for device in decision.scheduled_devices}
        like = encode(learning.extractor, world.settings.learning.upload_bits_per_parameter)
        uploads = self._nodes.train(state.round, orders, profiles, learning.extractor, like)

        aggregate = aggregate_for(world.settings.learning, learning.extractor)
        for device, upload in uploads.items():  # in the order of their numbers: the same bits every time
            aggregate.add(upload.payload, profiles[device].samples)
        learning = replace(learning, extractor=aggregate.result())
        decision = _charged(decision, uploads)
        queue = queues.advance(state.queues, decision.energy_j, world.fleet.budget_j)
        failed = orders.keys() - uploads.keys()
        metrics, scores = None, None
        if evaluation_is_due(world, state.round):
            able = [device for device in profiles if device not in failed]
            scores = self._nodes.evaluate(state.round, able, learning.extractor)
            metrics = self._metrics(scores)
        record = record_round(state.round, decision, world, queue, metrics, failed)
        told = _with_uploads(record, uploads)
        return State(state.round + 1, queue, learning), replace(
            told, **self._seen(state.round, profiles, scores)
        )

    def _metrics(self, scores: Mapping[int, Score]) -> Metrics | None:
        """Over all devices that were ever tested: one that cannot be reached any more has not got better."""
        self._scores.update(scores)
        known = [self._scores[device] for device in sorted(self._scores)]
        return metrics_of(np.array([(score.accuracy, score.loss) for score in known])) if known else None

    def _seen(
        self, round_index: int, profiles: Mapping[int, Profile], scores: Mapping[int, Score] | None
    ) -> dict[str, Any]:
        """What the record says of nodes, and of scores where they were asked for."""
        conduct, answered = self._nodes.conduct, list(profiles)
        seen: dict[str, Any] = {
            "answered": answered,
            "nodes": [self._nodes.node_of[device] for device in answered],
            "misbehaved": conduct.of_round(round_index),
            "set_aside": [o for o in conduct.aside(round_index).values() if o.round < round_index],
        }
        if scores is not None:
            seen |= {
                "scored": list(scores),
                "device_accuracy": [score.accuracy for score in scores.values()],
                "device_loss": [score.loss for score in scores.values()],
                "scored_before": sorted(self._scores.keys() - scores.keys()),
                "unscored": sorted(set(range(self._world.fleet.devices)) - self._scores.keys()),
            }
        return seen

    def _recall(self, rounds: int) -> None:
        """Know what the records of the rounds before say of nodes, when a server that was killed goes on."""
        if self._recalled:
            return
        self._recalled = True
        records = runs.read_records(self._directory)[:rounds] if rounds else []
        records = [record for record in records if "nodes" in record]  # version 0.1 did not write of them
        for record in records:
            self._nodes.node_of.update(zip(record["answered"], record["nodes"], strict=True))
            scores = map(Score, record["device_accuracy"], record["device_loss"])
            self._scores.update(zip(record["scored"], scores, strict=True))
        offences = [Offence(**offence) for record in records for offence in record["misbehaved"]]
        self._nodes.conduct = Conduct(offences)

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
    if not profiles:
        return _nobody(world)
    present = np.array(sorted(profiles))
    gain = np.zeros(world.fleet.devices)
    gain[present] = [profiles[device].channel_gain for device in sorted(profiles)]
    problem = round_problem(world, state, gain)
    rng = stream(world.settings.run.seed, "policy", state.round)
    policy, name = _policy(world, len(present)), world.settings.policy.name
    decision = ask(policy, _part(problem, present), rng, name, state.round)
    return _over_all(decision, present, problem.devices)


def _policy(world: World, present: int) -> Policy:
    """The run's policy; one that draws more devices than are here takes all, for the others may come back."""
    name, options = world.settings.policy.name, world.settings.policy.options
    if name != "uniform" or not present < options.get("count", UNIFORM_COUNT) <= world.fleet.devices:
        return world.policy
    find = find_unlimited_policy if world.settings.run.wireless == "none" else find_policy
    return find(name, **options | {"count": present})


def _nobody(world: World) -> Decision:
    """The decision of a round in which there is no device to decide about."""
    nothing = np.zeros(world.fleet.devices)
    return Decision(
        policy=world.settings.policy.name,
        scheduled=np.zeros(world.fleet.devices, bool),
        bandwidth_share=nothing,
        compute_time_s=nothing,
        upload_time_s=nothing,
        frequency_hz=nothing,
        power_w=nothing,
        compute_energy_j=nothing,
        upload_energy_j=nothing,
        objective=0.0,
    )


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


def _with_uploads(record: Record, uploads: Mapping[int, Upload]) -> FederationRecord:
    arrived = [uploads.get(device) for device in record.scheduled]
    return FederationRecord(
        **vars(record),
        train_time_s=[upload.report.train_time_s if upload else None for upload in arrived],
        measured=[bool(upload.report.measured) if upload else None for upload in arrived],
        upload_bytes=[upload.size_bytes if upload else None for upload in arrived],
    )


def name_run(directory: Path, identity: runs.Identity, fleet: Fleet) -> None:
    """Write down that a new run is a federation's: devices keep their heads under its name."""
    _write(directory, identity.run, _as_lists(fleet))


def _as_lists(fleet: Fleet) -> dict[str, list[float]]:
    return {name: getattr(fleet, name).tolist() for name in DECLARED}


def _read(directory: Path) -> tuple[str, dict[str, NDArray[np.float64]]]:
    """The name of a run, and what devices said of themselves."""
    path, identity = directory / runs.FEDERATION, runs.identify(directory)
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        fleet = {name: np.array(known["fleet"][name], dtype=np.float64) for name in DECLARED}
        whole = known["digest"] == _digest(known["run"], known["fleet"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}); put it back from a copy") from None
    if not whole:
        raise InputError(f"{path} is damaged (its digest does not fit); put it back from a copy")
    if known["run"] != identity.run:
        raise InputError(f"{path} belongs to another run ({known['run']!s:.8}); put it back from a copy")
    return identity.run, fleet


def _write(directory: Path, run: str, fleet: Mapping[str, list[float]]) -> None:
    known = {"run": run, "fleet": fleet, "digest": _digest(run, fleet)}
    runs.write_atomically(directory / runs.FEDERATION, (json.dumps(known, indent=2) + "\n").encode())


def _digest(run: str, fleet: Mapping[str, list[float]]) -> str:
    return hashlib.sha256(json.dumps([run, fleet], sort_keys=True).encode()).hexdigest()
