"""The world of a run: what follows from its settings alone and stays fixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmafl import data, plugins
from pmafl.brief import brief
from pmafl.errors import InputError, NobodyInTime
from pmafl.learning import Workload, form_of, workload
from pmafl.scheduling import Outlook, Policy, find_policy, find_unlimited_policy
from pmafl.settings import Settings
from pmafl.spreads import draw_samples
from pmafl.streams import stream
from pmafl.wireless import (
    Array,
    Fleet,
    Mask,
    RoundProblem,
    build_fleet,
    compute_energy,
    distances,
    noise_w_per_hz,
    path_gain,
    place,
    usable_gain,
)
from pmafl.wireless.channels import Channel, Site, make_channel

if TYPE_CHECKING:
    from pmafl.learning.method import Method
    from pmafl.learning.task import LearningTask

FADING_LEVELS = 32  # by which a policy knows the law of the fading


@brief
@dataclass(frozen=True)
class World:
    """What stays fixed in a run.

    Attributes:
        settings: what the user asked for.
        fleet: the devices, as the settings describe them.
        position_m: where devices stand, shape (2, devices), the server being in the middle.
        costs: upload size, operations and iterations of a device's round.
        policy: decides a round.
        channel: the channels' model.
        method: the learning side's algorithm and network, or None without learning.
        task: the same with the data of all devices, where they are simulated.
        notes: what was recognised in the data, for people.
        clients: whose the devices are, one name per device; empty where the data do not say.
    """

    settings: Settings
    fleet: Fleet
    position_m: Array = field(repr=False)
    costs: Workload
    policy: Policy = field(repr=False)
    channel: Channel = field(repr=False)
    method: Method | None = field(default=None, repr=False)
    task: LearningTask | None = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    clients: tuple[str, ...] = field(default=(), repr=False)


def build_world(settings: Settings, dataset: data.Dataset | None = None) -> World:
    """Everything that follows from the settings: devices, channels, costs, policy, data and network.

    A caller who has the settings' data set already may give it.
    """
    plugins.search(settings.run.plugin_path)
    seed, devices = settings.run.seed, settings.fleet.devices
    position_m = place(settings.cell, devices, stream(seed, "placement"))
    distance_m = distances(position_m)
    site = Site(settings.cell, distance_m, path_gain(settings.cell, distance_m))
    channel = make_channel(site, settings.run.rounds)
    find = find_unlimited_policy if settings.run.wireless == "none" else find_policy
    policy = find(settings.policy.name, **settings.policy.options)
    sizes, costs, task, notes, clients = _learning_side(settings, dataset)
    fleet = build_fleet(
        settings.fleet,
        sizes,
        costs.operations_per_sample,
        usable_gain(channel.mean_gain),
        stream(seed, "fleet", 1),
    )
    method = task.method if task else None
    world = World(settings, fleet, position_m, costs, policy, channel, method, task, notes, clients)
    _check_uploads(world)
    _check_deadline(world)
    return world


def wireless_world(settings: Settings, dataset: data.Dataset | None = None) -> World:
    """The same world without its learning side: cheap to build, with the same devices and channels."""
    run = settings.run.model_copy(update={"learning": "none"})
    return build_world(settings.model_copy(update={"run": run}), dataset)


def costs_of(settings: Settings) -> Workload:
    """What a device's round costs under the settings; a known data set needs no file for that."""
    if settings.data.dataset == "none":
        return workload(settings.learning)
    known = data.known_data(settings.data)
    return workload(settings.learning, known.input_shape, known.outputs, form_of(known, settings.data.inputs))


def _learning_side(
    settings: Settings, dataset: data.Dataset | None
) -> tuple[NDArray[np.int64], Workload, LearningTask | None, tuple[str, ...], tuple[str, ...]]:
    """How much each device holds, the costs of the model, the learning task if there is one, notes, clients.

    Sizes and costs of a known data set need its label counts only, and no file; without a data set devices
    hold what the settings say.
    """
    if settings.data.dataset == "none":
        samples = draw_samples(
            settings.fleet.samples, settings.fleet.devices, stream(settings.run.seed, "fleet", 0)
        )
        assert samples is not None, "without a data set, the settings give numbers"
        return samples, workload(settings.learning), None, (), ()
    known = dataset or data.known_data(settings.data)
    form = form_of(known, settings.data.inputs)
    costs = workload(settings.learning, known.input_shape, known.outputs, form)
    partition = data.split_data(settings, known)
    task = None
    if settings.run.learning == "full":  # what is wrong so far was found before anything is fetched
        from pmafl.learning.task import LearningTask

        if not isinstance(known, data.Dataset):
            known = data.load_data(settings.data)
            partition = data.split_data(settings, known)
        task = LearningTask(settings.learning, known, partition, settings.run.seed, settings.data.inputs)
    return partition.sizes, costs, task, _notes(known, partition), partition.client_names


def _notes(dataset: data.Dataset | data.Known, partition: data.Partition) -> tuple[str, ...]:
    """What was recognised in the data and how clients became devices, for people."""
    unused = ""
    if dataset.owners() is not None and partition.client is None:
        unused = (
            "the data say whose samples are, but are split otherwise; data.partition = 'natural' keeps them"
        )
    return tuple(filter(None, (*dataset.notes, partition.note, unused)))


def _check_uploads(world: World) -> None:
    bits, devices = np.size(world.costs.upload_bits), world.fleet.devices
    if np.ndim(world.costs.upload_bits) and bits != devices:
        learning = world.settings.learning
        lists = any(isinstance(value, list | tuple) for value in learning.upload_options.values())
        blamed = "learning.upload_options" if lists else f"algorithm {learning.algorithm!r}"
        raise InputError(f"{blamed}: gives upload sizes of {bits} devices; there are {devices}")


def _check_deadline(world: World) -> None:
    if world.settings.run.wireless == "none":
        return
    with np.errstate(over="ignore"):  # longer than any number is too long
        work_cycles = world.costs.charged_iterations * world.fleet.samples * world.fleet.cycles_per_sample
        received_s = download_time_s(world)
        fastest_s = float((work_cycles / world.fleet.max_frequency_hz + received_s).min())
    if fastest_s >= world.settings.cell.deadline_s:
        does = "receives and computes for" if np.any(received_s) else "computes"
        raise NobodyInTime(
            f"cell.deadline_s = {world.settings.cell.deadline_s:g}: no device can take part, for the fastest "
            f"{does} {fastest_s:.4g} s; raise it, or lower fleet.samples or learning.iterations"
        )


def download_time_s(world: World) -> Array:
    """How long devices take to receive what is shared; nothing where the settings give no rate."""
    return received_s(world.settings, world.costs)


def received_s(settings: Settings, costs: Workload) -> Array:
    """The same from the costs alone: one number, or one per device where downloads differ."""
    rate_bps = settings.cell.downlink_bps
    bits = np.asarray(costs.download_bits, dtype=np.float64)
    return bits / rate_bps if rate_bps else np.zeros_like(bits)


def tuning_cost(world: World) -> tuple[Array, Array]:
    r"""Joules and seconds that each device takes to tune its model before a test; 0 where none does.

    No round is charged for it. A device takes the time that costs it least, as long as a round's deadline at
    most, or longer where its highest clock needs longer. Where its circuits draw power P while it is awake,
    the clock of least energy is

    .. math:: f = \sqrt[3]{P / (2 \kappa)}.
    """
    fleet, settings = world.fleet, world.settings
    kappa = settings.fleet.energy_coefficient
    work_cycles = world.costs.tuning_iterations * fleet.samples * fleet.cycles_per_sample
    fastest_s = work_cycles / fleet.max_frequency_hz
    longest_s = np.maximum(settings.cell.deadline_s, fastest_s)
    best_hz = np.cbrt(fleet.circuit_power_w / (2 * kappa))
    best_s = np.divide(work_cycles, best_hz, out=longest_s.copy(), where=best_hz > 0)
    time_s = np.where(work_cycles > 0, np.clip(best_s, fastest_s, longest_s), 0.0)
    return compute_energy(time_s, work_cycles, kappa) + fleet.circuit_power_w * time_s, time_s


def channel_gain(world: World, round_index: int) -> Array:
    """Channel power gains of a round; whoever asks gets the same."""
    seed, channel = world.settings.run.seed, world.channel
    state = channel.start(stream(seed, "fading"))
    for index in range(round_index) if state else ():  # without a state, rounds do not depend on each other
        _, state = channel.gains(state, index, stream(seed, "fading", index))
    gain, _ = channel.gains(state, round_index, stream(seed, "fading", round_index))
    return usable_gain(gain)


def channel_gains(world: World) -> Array:
    """Channel power gains of all rounds, shape (rounds, devices)."""
    seed, channel, gains = world.settings.run.seed, world.channel, []
    state = channel.start(stream(seed, "fading"))
    for index in range(world.settings.run.rounds):
        gain, state = channel.gains(state, index, stream(seed, "fading", index))
        gains.append(usable_gain(gain))
    return np.stack(gains)


def outlook(world: World, fleet: Fleet | None = None) -> Outlook:
    """All that the server knows before the first round, of the world's devices or of those that reported."""
    fleet = fleet or world.fleet
    problem = make_problem(world, fleet, fleet.path_gain, np.zeros(fleet.devices))
    return Outlook(problem, world.channel.law(FADING_LEVELS), world.settings.run.rounds)


def make_problem(
    world: World, fleet: Fleet, gain: Array, queue_j: Array, **more: Array | Mask | int
) -> RoundProblem:
    """The problem of a round with these devices, channels and queues; `more` are further fields of it."""
    settings, received_s = world.settings, download_time_s(world)
    return RoundProblem(
        bandwidth_hz=settings.cell.bandwidth_hz,
        noise_w_per_hz=noise_w_per_hz(settings.cell.noise_dbm_per_hz),
        deadline_s=settings.cell.deadline_s,
        energy_coefficient=settings.fleet.energy_coefficient,
        local_iterations=world.costs.charged_iterations,
        tradeoff=settings.policy.tradeoff,
        samples=fleet.samples,
        cycles_per_sample=fleet.cycles_per_sample,
        max_frequency_hz=fleet.max_frequency_hz,
        max_power_w=fleet.max_power_w,
        channel_gain=gain,
        queue_j=queue_j,
        upload_bits=np.asarray(world.costs.upload_bits, dtype=np.float64),
        budget_j=fleet.budget_j,
        circuit_power_w=fleet.circuit_power_w,
        receive_energy_j=fleet.connect_energy_j + fleet.receive_power_w * received_s,
        download_time_s=received_s,
        **more,  # type: ignore[arg-type]
    )
