"""The round loop: ask the devices, decide, train, aggregate, update queues, record.

`State` is what the next round needs, `Record` is what a person wants to see of a round. Everything random is
addressed by seed, name and round, so going on from a saved state gives the same rounds as never having
stopped, whoever the devices are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmafl.brief import brief
from pmafl.devices import Arrays, Devices, Report, Result, SimulatedDevices
from pmafl.learning import threads
from pmafl.scheduling import Decision, Outcome, QueueState, ask, begin, queues, tell
from pmafl.settings import RunSettings, Settings
from pmafl.streams import stream
from pmafl.wireless import LARGEST, SMALLEST, Array, RoundProblem
from pmafl.workers import Team, simulated_devices
from pmafl.world import World, build_world, make_problem, outlook

if TYPE_CHECKING:
    from pmafl.learning.evaluation import Metrics
    from pmafl.learning.method import LearningState

METRICS = ("accuracy", "loss", "accuracy_std", "worst_tenth_accuracy", "global_accuracy")
ERRORS = ("error", "error_std", "worst_tenth_error", "global_error")  # in place of accuracies, for values
# Of every device in an evaluated round: its score, whether it took part, what it spent in the round and so
# far, its channel's gain, and the clock and power that it was told (0 where it did not take part).
DEVICE_COLUMNS = (
    "accuracy",
    "error",
    "loss",
    "scheduled",
    "energy_j",
    "spent_j",
    "queue_j",
    "channel_gain",
    "frequency_hz",
    "power_w",
)
Callback = Callable[["World", "Record"], None]


@brief
@dataclass(frozen=True, eq=False)
class State:
    """What the next round needs.

    Attributes:
        round: its number.
        queues: energy spent, and spent beyond the budget.
        last_turn: the round in which each device last took part; -1 where never.
        last_loss: the training loss that each device last reported; NaN where none.
        policy: what the policy remembers; None before the first round.
        devices: what the devices' side remembers.
        learning: the server's tensors and those of simulated devices; None without learning.
    """

    round: int
    queues: QueueState
    last_turn: Array
    last_loss: Array
    policy: Arrays | None
    devices: Arrays
    learning: LearningState | None


@brief
@dataclass(frozen=True)
class Record:
    """One round as it is written to ``rounds.jsonl``. Lists follow `scheduled`; None is "not measured",
    or a loss that is no number any more: the training diverged.

    `mean_energy_j` and `worst_energy_j` are energies per device and round, averaged from the start of the
    run: over all devices, and of the device that spent most. `failed` are the scheduled devices whose update
    never arrived, as happens with real ones: they are charged, but `scheduled_samples` leaves them out.
    `dropped` are those that a policy wanted although they could not take part, or did not fit the band
    together. `awake_energy_j`, of receiving and circuits, is left out where that costs nobody anything.
    `train_loss` is measured in a device's first pass over its samples. Where values are predicted,
    `error` and its like are the mean absolute error, and there are no accuracies; elsewhere they are not in
    the file. `notes` are what only some devices can tell; in the file they stand beside the others.
    `per_device` has an array for each of `DEVICE_COLUMNS` in rounds that were evaluated; it has a file of its
    own, ``devices.npy``.
    """

    round: int
    scheduled: list[int]
    scheduled_samples: int
    bandwidth_share: list[float]
    compute_time_s: list[float]
    upload_time_s: list[float]
    compute_energy_j: list[float]
    upload_energy_j: list[float]
    mean_energy_j: float
    worst_energy_j: float
    mean_queue_j: float
    max_queue_j: float
    objective: float | None
    lower_bound: float | None
    gap: float | None
    accuracy: float | None = None
    loss: float | None = None
    accuracy_std: float | None = None
    worst_tenth_accuracy: float | None = None
    global_accuracy: float | None = None
    error: float | None = None
    error_std: float | None = None
    worst_tenth_error: float | None = None
    global_error: float | None = None
    failed: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    train_loss: list[float | None] = field(default_factory=list)
    awake_energy_j: list[float] = field(default_factory=list)
    notes: Mapping[str, Any] = field(default_factory=dict)
    per_device: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        values = asdict(replace(self, per_device={}))
        del values["per_device"]
        notes: dict[str, Any] = values.pop("notes")
        if not self.awake_energy_j:
            del values["awake_energy_j"]
        if self.error is None:
            values = {name: value for name, value in values.items() if name not in ERRORS}
        return values | notes


def energy_of(record: Mapping[str, Any]) -> Array:
    """Energy in joules that each scheduled device of a recorded round spent."""
    energy_j: Array = np.add(record["compute_energy_j"], record["upload_energy_j"])
    return energy_j + np.array(record["awake_energy_j"]) if record.get("awake_energy_j") else energy_j


def length_s(record: Mapping[str, Any], settings: Settings, received_s: Array) -> float:
    """How long a recorded round lasts: until its last device has uploaded, the deadline if there is none.

    `received_s` is how long devices received before (`world.received_s`). NaN where time plays no part.
    """
    if settings.run.wireless == "none":
        return math.nan
    if not record["scheduled"]:
        return settings.cell.deadline_s
    before_s = received_s[record["scheduled"]] if np.ndim(received_s) else received_s
    return float((np.add(record["compute_time_s"], record["upload_time_s"]) + before_s).max())


def start(world: World) -> State:
    """The state before the first round."""
    devices = world.fleet.devices
    return State(
        round=0,
        queues=queues.start(devices, world.settings.policy.queue_start_j),
        last_turn=np.full(devices, -1.0),
        last_loss=np.full(devices, np.nan),
        policy=None,
        devices={},
        learning=world.method.start() if world.method else None,
    )


def advance(world: World, devices: Devices, state: State) -> tuple[State, Record]:
    """One round. A device that got an order is charged for it, whether or not its upload arrived.

    Nobody knows how far a device came that failed. A queue that is too long costs it a round, one that is
    too short its battery.
    """
    devices.restore(state.devices)
    report = devices.report(state.round)
    problem = round_problem(world, state, report)
    name, remembered = world.settings.policy.name, state.policy
    if remembered is None:
        remembered = begin(world.policy, outlook(world, report.fleet), name)
    rng = stream(world.settings.run.seed, "policy", state.round)
    decision = ask(world.policy, problem, remembered, rng, name)
    learning, results = _train(world, devices, state, decision, report)
    decision = _charged(decision, results)
    outcome = _outcome(decision, results)
    queue = queues.advance(state.queues, decision.energy_j, report.fleet.budget_j)
    failed = sorted(set(decision.scheduled_devices) - results.keys())
    metrics, per_device = None, {}
    if learning is not None and is_evaluated(world.settings.run, state.round):
        metrics = devices.evaluate(state.round, learning, failed)
        per_device = _per_device(report, decision, metrics, queue)
    after = State(
        round=state.round + 1,
        queues=queue,
        last_turn=np.where(outcome.delivered, state.round, state.last_turn),
        last_loss=np.where(np.isnan(outcome.loss), state.last_loss, outcome.loss),
        policy=tell(world.policy, remembered, problem, decision, outcome, name),
        devices=devices.memory(),
        learning=learning,
    )
    record = _record(world, after, decision, outcome, metrics, report)
    notes = {**_notes(record.scheduled, results), **devices.notes(state.round)}
    return after, replace(record, notes=notes, per_device=per_device)


def round_problem(world: World, state: State, report: Report) -> RoundProblem:
    """All that the server knows when it decides the round."""
    fleet = report.fleet
    cap_j = np.full(fleet.devices, np.inf)
    if world.settings.policy.hard_budget:
        cap_j = queues.remaining_j(state.queues, fleet.budget_j, world.settings.run.rounds)
    return make_problem(
        world,
        fleet,
        report.gain,
        state.queues.queue_j,
        available=report.available,
        energy_cap_j=cap_j,
        rounds_since=np.where(state.last_turn < 0, np.inf, state.round - state.last_turn),
        last_loss=np.where(state.last_loss < SMALLEST, 0.0, np.minimum(state.last_loss, LARGEST)),
        round=state.round,
    )


def _train(
    world: World, devices: Devices, state: State, decision: Decision, report: Report
) -> tuple[LearningState | None, dict[int, Result]]:
    """The learning side after the round, and what came from each device; uploads are not kept."""
    results: dict[int, Result] = {}
    combining = None
    if world.method and state.learning:
        combining = world.method.combining(state.learning, report.fleet.samples)
    for result in devices.train(state.round, decision, state.learning):
        if combining is not None and result.trained is not None:
            combining.add(result.device, result.trained, int(report.fleet.samples[result.device]))
            result = replace(result, trained=replace(result.trained, upload={}))
        results[result.device] = result
    return combining.result() if combining else None, results


def _charged(decision: Decision, results: Mapping[int, Result]) -> Decision:
    """The decision with the energies that devices reported; the others keep what was planned."""
    reported = {device: result.energy_j for device, result in results.items() if result.energy_j}
    if not reported:
        return decision
    compute_j, upload_j = decision.compute_energy_j.copy(), decision.upload_energy_j.copy()
    for device, (compute, upload) in reported.items():
        compute_j[device], upload_j[device] = compute, upload
    return replace(decision, compute_energy_j=compute_j, upload_energy_j=upload_j)


def _outcome(decision: Decision, results: Mapping[int, Result]) -> Outcome:
    delivered = np.zeros(decision.scheduled.size, bool)
    delivered[list(results)] = True
    loss = np.full(decision.scheduled.size, np.nan)
    for device, result in results.items():
        if result.trained is not None and math.isfinite(result.trained.loss):
            loss[device] = result.trained.loss
    return Outcome(delivered, decision.energy_j, loss)


def to_arrays(state: State) -> Arrays:
    """All of a state as named arrays, but for its round and what each device holds."""
    server = state.learning.server if state.learning else {}
    groups: dict[str, Mapping[str, Any]] = {
        "policy": state.policy or {},
        "devices": state.devices,
        "server": {name: values.cpu().numpy() for name, values in server.items()},
    }
    arrays = {f"{group}/{name}": values for group, named in groups.items() for name, values in named.items()}
    return arrays | {
        "queue_j": state.queues.queue_j,
        "spent_j": state.queues.spent_j,
        "last_turn": state.last_turn,
        "last_loss": state.last_loss,
    }


def from_arrays(
    fresh: State, round_index: int, arrays: Mapping[str, Any], held: Mapping[int, Mapping[str, Any]]
) -> State:
    """The state before a round from its arrays and what each device held, of a run that starts as `fresh`."""

    def group(name: str) -> Arrays:
        prefix = f"{name}/"
        return {key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)}

    return State(
        round=round_index,
        queues=QueueState(arrays["queue_j"], arrays["spent_j"]),
        last_turn=arrays["last_turn"],
        last_loss=arrays["last_loss"],
        policy=group("policy"),
        devices=group("devices"),
        learning=fresh.learning.restored(group("server"), held) if fresh.learning else None,
    )


def is_evaluated(run: RunSettings, round_index: int) -> bool:
    """Whether devices are tested after a round."""
    done = round_index + 1
    return done % run.evaluate_every == 0 or done == run.rounds


def _record(
    world: World,
    after: State,
    decision: Decision,
    outcome: Outcome,
    metrics: Metrics | None,
    report: Report,
) -> Record:
    """What a person wants to see of the round."""
    devices, queue = decision.scheduled_devices, after.queues
    arrived = np.flatnonzero(outcome.delivered)
    energy_j = queue.spent_j / after.round
    measured: dict[str, Any] = {name: _finite(getattr(metrics, name, None)) for name in (*METRICS, *ERRORS)}
    return Record(
        round=after.round - 1,
        scheduled=devices,
        scheduled_samples=int(report.fleet.samples[arrived].sum()),
        bandwidth_share=decision.bandwidth_share[devices].tolist(),
        compute_time_s=decision.compute_time_s[devices].tolist(),
        upload_time_s=decision.upload_time_s[devices].tolist(),
        compute_energy_j=decision.compute_energy_j[devices].tolist(),
        upload_energy_j=decision.upload_energy_j[devices].tolist(),
        mean_energy_j=float(energy_j.mean()),
        worst_energy_j=float(energy_j.max()),
        mean_queue_j=float(queue.queue_j.mean()),
        max_queue_j=float(queue.queue_j.max()),
        objective=decision.objective if world.settings.run.wireless == "full" else None,
        lower_bound=decision.lower_bound,
        gap=decision.gap,
        **measured,
        failed=[device for device in devices if not outcome.delivered[device]],
        dropped=decision.dropped_devices,
        train_loss=[_finite(loss) for loss in outcome.loss[devices].tolist()] if after.learning else [],
        awake_energy_j=decision.awake_energy_j[devices].tolist() if decision.awake_energy_j.any() else [],
    )


def _per_device(
    report: Report, decision: Decision, metrics: Metrics | None, queue: QueueState
) -> dict[str, NDArray[Any]]:
    """The columns of an evaluated round; NaN is "not known"."""
    unknown = np.full(report.fleet.devices, np.nan)
    scores = (metrics.device_accuracy, metrics.device_error, metrics.device_loss) if metrics else (None,) * 3
    accuracy, error, loss = (unknown if score is None else score for score in scores)
    return {
        "accuracy": accuracy,
        "error": error,
        "loss": loss,
        "scheduled": decision.scheduled,
        "energy_j": decision.energy_j,
        "spent_j": queue.spent_j,
        "queue_j": queue.queue_j,
        "channel_gain": np.where(report.available, report.gain, np.nan),
        "frequency_hz": decision.frequency_hz,
        "power_w": decision.power_w,
    }


def _notes(scheduled: list[int], results: Mapping[int, Result]) -> dict[str, list[Any]]:
    """What devices noted, as lists that follow `scheduled`, with None for those that failed."""
    names = dict.fromkeys(name for result in results.values() for name in result.notes)
    return {
        name: [results[device].notes.get(name) if device in results else None for device in scheduled]
        for name in names
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def play(
    world: World, devices: Devices | None = None, state: State | None = None
) -> Iterator[tuple[State, Record]]:
    """The rounds of a world, from a state (the start, if none is given) to the end."""
    devices, state = devices or SimulatedDevices(world), state or start(world)
    while state.round < world.settings.run.rounds:
        with _one_thread(world.settings):  # not beyond the round: between rounds the caller goes on
            state, record = advance(world, devices, state)
        yield state, record


def _one_thread(settings: Settings) -> AbstractContextManager[None]:
    return nullcontext() if settings.run.learning == "none" else threads()


def simulate(
    settings: Settings, callbacks: Iterable[Callback] = (), workers: int | None = None
) -> Iterator[Record]:
    """Run the settings and give the record of each round as it happens.

    Devices are trained by so many `workers` (default: one per core).

    >>> from pmafl.settings import load
    >>> wireless = load("mnist", {"run.learning": "none", "run.rounds": 3})
    >>> [record.round for record in simulate(wireless)]
    [0, 1, 2]
    """
    with _one_thread(settings):
        world = build_world(settings)
    with simulated_devices(world, Team(workers)) as devices:
        for _, record in play(world, devices):
            for callback in callbacks:
                callback(world, record)
            yield record
