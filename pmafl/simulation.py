"""The round loop: draw channels, decide, train, aggregate, update queues, record.

`World` is what stays fixed in a run and follows from the settings alone, `State` is what the next round
needs, `Record` is what a person wants to see of a round. Everything random is addressed by seed, name and
round, so going on from a saved state gives the same rounds as never having stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pmafl import data, plugins
from pmafl.brief import brief
from pmafl.data import Partition
from pmafl.errors import InputError
from pmafl.learning.workload import Workload, workload
from pmafl.plugins import blaming
from pmafl.scheduling import Decision, Policy, ask, find_policy, find_unlimited_policy, queues
from pmafl.scheduling.pricing import EnergyPrices, Outlook, PricedPolicy
from pmafl.scheduling.queues import QueueState
from pmafl.settings import Settings
from pmafl.streams import stream
from pmafl.wireless.cell import Array, fade, fading_levels, load_trace, noise_w_per_hz, path_gain, place
from pmafl.wireless.fleet import Fleet, build_fleet, draw_samples
from pmafl.wireless.problem import RoundProblem, usable_gain

if TYPE_CHECKING:
    from pmafl.learning.evaluation import Metrics
    from pmafl.learning.rounds import LearningState
    from pmafl.learning.task import LearningTask

FADING_LEVELS = 32  # by which a policy knows the law of the fading
METRICS = ("accuracy", "loss", "accuracy_std", "worst_tenth_accuracy", "global_accuracy")
Callback = Callable[["World", "Record"], None]


@brief
@dataclass(frozen=True)
class World:
    """What stays fixed in a run.

    Attributes:
        settings: what the user asked for.
        fleet: the devices.
        costs: upload size, operations and iterations of a device's round.
        policy: decides a round.
        trace: channel gains by round and device, or None for the channel model.
        task: the learning side, or None without learning.
    """

    settings: Settings
    fleet: Fleet
    costs: Workload
    policy: Policy
    trace: Array | None
    task: LearningTask | None

    @cached_property
    def energy_prices(self) -> EnergyPrices | None:
        """The prices of a policy that has its own; None where queues take their place.

        They are made when the first round asks for them: by then real devices have said what they are.
        """
        if not isinstance(self.policy, PricedPolicy):
            return None
        with blaming(f"policy {self.settings.policy.name!r}"):
            return self.policy.prices(outlook(self))


@brief
@dataclass(frozen=True)
class State:
    """What the next round needs: its number, the energy queues, the weights (None without learning)."""

    round: int
    queues: QueueState
    learning: LearningState | None


@brief
@dataclass(frozen=True)
class Record:
    """One round as it is written to ``rounds.jsonl``. Lists follow `scheduled`; None is "not measured",
    or a loss that is no number any more: the training diverged.

    `mean_energy_j` and `worst_energy_j` are energies a device and round, averaged from the start of the run:
    over all devices, and of the device that spent most. `failed` are the scheduled devices whose update never
    arrived, as happens with real ones: they are charged, but `scheduled_samples` leaves them out. `dropped`
    are those that a policy wanted although they could not take part, or did not fit the band together.
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
    failed: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def build_world(settings: Settings, dataset: data.Dataset | None = None) -> World:
    """Everything that follows from the settings: devices, costs, policy, data and model.

    A caller who has the settings' data set already may give it.
    """
    seed, devices = settings.run.seed, settings.fleet.devices
    plugins.search(settings.run.plugin_path)
    trace = (
        load_trace(settings.cell.gain_trace, settings.run.rounds, devices)
        if settings.cell.gain_trace
        else None
    )
    if trace is None:
        mean_gain = path_gain(settings.cell, place(settings.cell, devices, stream(seed, "placement")))
    else:
        mean_gain = trace.mean(axis=0)
    partition, costs, task = _learning_side(settings, dataset)
    operations = costs.operations_per_sample
    fleet = build_fleet(
        settings.fleet, partition.sizes, operations, usable_gain(mean_gain), stream(seed, "fleet", 1)
    )
    find = find_unlimited_policy if settings.run.wireless == "none" else find_policy
    policy = find(settings.policy.name, **settings.policy.options)
    world = World(settings, fleet, costs, policy, trace, task)
    _check_deadline(world)
    return world


def wireless_world(settings: Settings, dataset: data.Dataset | None = None) -> World:
    """The same world without its learning side: cheap to build, with the same devices and channels."""
    run = settings.run.model_copy(update={"learning": "none"})
    return build_world(settings.model_copy(update={"run": run}), dataset)


def split_data(settings: Settings, dataset: data.Dataset | data.Known) -> Partition:
    """Who holds what under these settings; device sizes are the same with and without the files."""
    seed, devices, choice = settings.run.seed, settings.fleet.devices, settings.data
    train_labels, test_labels = dataset.labels()
    return data.split(
        train_labels,
        test_labels,
        devices,
        stream(seed, "partition"),
        partition=choice.partition,
        sizes=draw_samples(settings.fleet.samples, devices, stream(seed, "fleet", 0)),
        shards_per_device=choice.shards_per_device,
        dirichlet_alpha=choice.dirichlet_alpha,
        test_split=choice.test_split,
    )


def _learning_side(
    settings: Settings, dataset: data.Dataset | None
) -> tuple[Partition, Workload, LearningTask | None]:
    """Who holds what, the costs of the model, and the learning task unless learning is switched off.

    Without learning, a known data set's split needs its label counts only, and no file.
    """
    name, directory = settings.data.dataset, settings.data.directory
    if settings.run.learning == "none":
        known = dataset or data.KNOWN.get(name) or data.load(name, directory)
        return (
            split_data(settings, known),
            workload(settings.learning, known.input_shape, known.classes),
            None,
        )
    from pmafl.learning.task import LearningTask

    dataset = dataset or data.load(name, directory)
    partition = split_data(settings, dataset)
    task = LearningTask(settings.learning, dataset, partition, settings.run.seed, settings.data.inputs)
    return partition, task.workload, task


def _check_deadline(world: World) -> None:
    if world.settings.run.wireless == "none":
        return
    work_cycles = world.costs.charged_iterations * world.fleet.samples * world.fleet.cycles_per_sample
    fastest_s = float((work_cycles / world.fleet.max_frequency_hz).min())
    if fastest_s >= world.settings.cell.deadline_s:
        raise InputError(
            f"cell.deadline_s = {world.settings.cell.deadline_s:g}: no device can take part, for the fastest "
            f"computes {fastest_s:.4g} s; raise it, or lower fleet.samples or learning.iterations"
        )


def channel_gain(world: World, round_index: int) -> Array:
    """Channel power gains of a round; whoever asks gets the same."""
    if world.trace is not None:
        gain: Array = world.trace[round_index]
        return gain
    rng = stream(world.settings.run.seed, "fading", round_index)
    return usable_gain(world.fleet.path_gain * fade(world.settings.cell, world.fleet.devices, rng))


def start(world: World) -> State:
    """The state before the first round."""
    queue = queues.start(world.fleet.devices, world.settings.policy.queue_start_j)
    return State(0, queue, world.task.start() if world.task else None)


def outlook(world: World) -> Outlook:
    """All that the server knows before the first round."""
    fleet, levels = world.fleet, fading_levels(world.settings.cell, FADING_LEVELS)
    nothing, unlimited = np.zeros(fleet.devices), np.full(fleet.devices, np.inf)
    problem = _problem(world, fleet.path_gain, nothing, unlimited)
    return Outlook(problem, levels, fleet.budget_j, world.settings.run.rounds)


def round_problem(world: World, state: State, gain: Array | None = None) -> RoundProblem:
    """All that the server knows when it decides the round; `gain` replaces the world's channels."""
    gain = channel_gain(world, state.round) if gain is None else gain
    queue_j, prices = state.queues.queue_j, world.energy_prices
    if prices is not None:
        with blaming(f"policy {world.settings.policy.name!r} in round {state.round}"):
            queue_j = prices(state.queues.spent_j, state.round)
    cap_j = np.full(world.fleet.devices, np.inf)
    if prices is not None or world.settings.policy.hard_budget:
        cap_j = queues.remaining_j(state.queues, world.fleet.budget_j, world.settings.run.rounds)
    return _problem(world, gain, queue_j, cap_j)


def _problem(world: World, gain: Array, queue_j: Array, cap_j: Array) -> RoundProblem:
    settings, fleet = world.settings, world.fleet
    return RoundProblem(
        bandwidth_hz=settings.cell.bandwidth_hz,
        noise_w_per_hz=noise_w_per_hz(settings.cell.noise_dbm_per_hz),
        deadline_s=settings.cell.deadline_s,
        upload_bits=world.costs.upload_bits,
        energy_coefficient=settings.fleet.energy_coefficient,
        local_iterations=world.costs.charged_iterations,
        tradeoff=1.0 if isinstance(world.policy, PricedPolicy) else settings.policy.tradeoff,
        samples=fleet.samples,
        cycles_per_sample=fleet.cycles_per_sample,
        max_frequency_hz=fleet.max_frequency_hz,
        max_power_w=fleet.max_power_w,
        channel_gain=gain,
        queue_j=queue_j,
        energy_cap_j=cap_j,
    )


def decide(world: World, state: State) -> Decision:
    """The round's decision; without the wireless side only its set matters."""
    rng = stream(world.settings.run.seed, "policy", state.round)
    return ask(world.policy, round_problem(world, state), rng, world.settings.policy.name, state.round)


def advance(world: World, state: State) -> tuple[State, Record]:
    """One round."""
    decision = decide(world, state)
    queue = queues.advance(state.queues, decision.energy_j, world.fleet.budget_j)
    learning, metrics = state.learning, None
    if world.task is not None and learning is not None:
        learning, _ = world.task.advance(learning, decision.scheduled_devices, state.round)
        if evaluation_is_due(world, state.round):
            metrics = world.task.evaluate(learning)
    return State(state.round + 1, queue, learning), record_round(state.round, decision, world, queue, metrics)


def evaluation_is_due(world: World, round_index: int) -> bool:
    done = round_index + 1
    return done % world.settings.run.evaluate_every == 0 or done == world.settings.run.rounds


def record_round(
    round_index: int,
    decision: Decision,
    world: World,
    queue: QueueState,
    metrics: Metrics | None,
    failed: Iterable[int] = (),
) -> Record:
    """What a person wants to see of the round."""
    devices = decision.scheduled_devices
    arrived = sorted(set(devices) - set(failed))
    energy_j = queue.spent_j / (round_index + 1)
    return Record(
        round=round_index,
        scheduled=devices,
        scheduled_samples=int(world.fleet.samples[arrived].sum()),
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
        **{name: _finite(getattr(metrics, name, None)) for name in METRICS},
        failed=sorted(failed),
        dropped=decision.dropped_devices,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def simulate(settings: Settings, callbacks: Iterable[Callback] = ()) -> Iterator[Record]:
    """Run the settings and give the record of each round as it happens.

    >>> from pmafl.settings import load
    >>> wireless = load("mnist", {"run.learning": "none", "run.rounds": 3})
    >>> [record.round for record in simulate(wireless)]
    [0, 1, 2]
    """
    world = build_world(settings)
    state = start(world)
    while state.round < settings.run.rounds:
        state, record = advance(world, state)
        for callback in callbacks:
            callback(world, record)
        yield record
