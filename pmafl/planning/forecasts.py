"""What a choice brings in the long run: the optimum of its typical round, and what follows from it.

The typical round is the fluid problem that the policy `steady` plans with. For the law of the fading it takes
more levels where channels are best, since devices with little energy wait for them. Many devices are
represented by some of them, except where a choice is looked at closely.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from pmafl.planning.request import Choice, Request, learning_of
from pmafl.progress import Progress, ignore
from pmafl.scheduling.fluid import Plan, Response, plan, respond
from pmafl.settings import DAY_S
from pmafl.wireless import Array, Fleet, Index, Mask, RoundProblem, distances, usable_gain
from pmafl.world import World, costs_of, make_problem, wireless_world

LEVELS = 1024  # equally likely ones, of which the best are kept apart and the others taken together
WIDEST = 32  # of them taken together at most
WIDTH = 0.005  # of the rounded kink, as part of the mean device's samples
# Of a joule, as part of the highest: who takes part in every round wastes nothing, and pays next to nothing.
LEAST_PRICE = 1e-4
SCARCE = 0.97  # part of a budget, or of the band, from which on it is all used
ONE_BY_ONE = 50_000  # devices looked at in the choice to take; of more, so many represent them
REPRESENTATIVES = 400  # devices by which choices are compared
NUDGE = 1e-3  # by which a quantity is changed to see what it is worth
RARE = 1e-9  # of all rounds: channels that are better still do not happen
TAIL = 16  # levels from the best by which its tail is judged


@dataclass(frozen=True, eq=False)
class Devices:
    """The devices of a request, or some that stand for them.

    Attributes:
        world: gives the cell and the costs of a model.
        fleet: the devices.
        distance_m: to the server.
        copies: how many devices each one stands for.
        fading: equally likely factors of the gains.
        best_fading: a factor that no round exceeds, but for one in a thousand million.
    """

    world: World
    fleet: Fleet
    distance_m: Array
    copies: Array
    fading: Array
    best_fading: float

    @property
    def count(self) -> float:
        return float(self.copies.sum())

    def some(self, most: int) -> Devices:
        """At most so many devices that stand for all: every n-th by the mean of its channel."""
        if self.fleet.devices <= most:
            return self
        order = np.argsort(self.fleet.path_gain, kind="stable")
        edge = np.linspace(0, order.size, most + 1).round().astype(np.intp)
        copies = np.add.reduceat(self.copies[order], edge[:-1])
        return self._take(order[(edge[:-1] + edge[1:]) // 2], copies)

    def _take(self, device: Index, copies: Array) -> Devices:
        arrays = {entry.name: getattr(self.fleet, entry.name)[device] for entry in fields(Fleet)}
        return replace(self, fleet=Fleet(**arrays), distance_m=self.distance_m[device], copies=copies)


def make_devices(request: Request) -> Devices:
    """All devices of a request, where they stand and how their channels behave."""
    world = wireless_world(request.settings)
    law = np.sort(world.channel.law(LEVELS))[::-1]
    return Devices(
        world,
        world.fleet,
        distances(world.position_m),
        np.ones(world.fleet.devices),
        typical_levels(law),
        best_level(law),
    )


def typical_levels(law: Array) -> Array:
    """The levels of a law, best first, where groups have the value in their middle: 4 of 1, 4 of 2, ..."""
    levels, start, size = law.copy(), 0, 1
    while start < law.size:
        for _ in range(4 if size < WIDEST else law.size):
            levels[start : start + size] = law[min(start + size // 2, law.size - 1)]
            start += size
        size = min(2 * size, WIDEST)
    return levels


def best_level(law: Array) -> float:
    """The factor that a part `RARE` of all rounds exceeds, if the law goes on as its best levels do.

    The factor is taken as linear in the logarithm of how rare it is, which is exact for Rayleigh fading.
    """
    best, near = float(law[0]), float(law[min(TAIL, law.size - 1)])
    how_rare, how_near = 0.5 / law.size, (min(TAIL, law.size - 1) + 0.5) / law.size
    slope = (best - near) / np.log(how_near / how_rare) if how_near > how_rare else 0.0
    return best + slope * float(np.log(how_rare / RARE))


def problem_of(devices: Devices, choice: Choice) -> RoundProblem:
    """The round problem of a choice, every channel at its mean."""
    settings = devices.world.settings
    learning = settings.learning.model_copy(update=learning_of(choice))
    cell = settings.cell.model_copy(
        update={
            "deadline_s": choice.deadline_s,
            "bandwidth_hz": choice.band_share * settings.cell.bandwidth_hz,
        }
    )
    fleet = devices.fleet
    if choice.budget_j is not None:
        fleet = replace(fleet, budget_j=np.full(fleet.devices, choice.budget_j))
    settings = settings.model_copy(update={"cell": cell, "learning": learning})
    costs = costs_of(settings) if learning_of(choice) else devices.world.costs
    world = replace(devices.world, settings=settings, costs=costs)
    return make_problem(world, fleet, fleet.path_gain, np.zeros(fleet.devices))


class Worth(NamedTuple):
    """What a part more of everything brings, in samples per round: dual values times what there is."""

    band: float
    energy: float
    time: float


@dataclass(frozen=True, eq=False)
class Optimum:
    """The optimum of a typical round.

    Attributes:
        devices: whose it is.
        problem: the round.
        prices: of energy and band.
        response: what devices do at them.
        samples: scheduled in a round.
    """

    devices: Devices
    problem: RoundProblem
    prices: Plan
    response: Response
    samples: float


def cap_of(problem: RoundProblem, rounds: float) -> Array:
    """The most that a single round may cost each device: the budget of all rounds."""
    return problem.budget_j * rounds


def optimise(devices: Devices, choice: Choice, rounds: float, progress: Progress = ignore) -> Optimum:
    """The best that devices can do in the long run, over so many rounds."""
    problem = problem_of(devices, choice)
    cap_j = cap_of(problem, rounds)
    prices = plan(
        problem, devices.fading, problem.budget_j, progress, cap_j, devices.copies, WIDTH, LEAST_PRICE
    )
    response = respond(problem, devices.fading, problem.budget_j, prices, cap_j, WIDTH)
    return Optimum(devices, problem, prices, response, _samples(devices, problem, prices, response))


def _samples(devices: Devices, problem: RoundProblem, prices: Plan, response: Response) -> float:
    """Scheduled samples of a round, corrected for what the search for prices left over or took too much."""
    left_j = np.where(scarce(problem, response), problem.budget_j - response.energy_j, 0.0)
    left = problem.samples * response.turns + prices.energy_price * left_j
    band_left = 1 - float(devices.copies @ response.share)
    # Where the band is not scarce, its price comes from the least price of energy and means nothing.
    scarce_band = band_left < 1 - SCARCE
    return float(devices.copies @ left) + (prices.band_price * band_left if scarce_band else 0.0)


def scarce(problem: RoundProblem, response: Response) -> Mask:
    """Whose energy is all spent: a joule more would bring something."""
    mask: Mask = response.energy_j > SCARCE * problem.budget_j
    return mask


def worth(optimum: Optimum, rounds: float) -> Worth:
    """Dual values: what a part more of the band, of all budgets and of the deadline would bring.

    At the best prices the value changes with the deadline as it does when prices stay (the envelope theorem).
    """
    devices, problem, prices = optimum.devices, optimum.problem, optimum.prices

    def value(factor: float) -> float:
        longer = replace(problem, deadline_s=problem.deadline_s * factor)
        response = respond(longer, devices.fading, longer.budget_j, prices, cap_of(problem, rounds), WIDTH)
        return float(devices.copies @ response.surplus)

    time = (value(1 + NUDGE) - value(1 - NUDGE)) / (2 * NUDGE)
    priced = prices.energy_price * problem.budget_j
    energy = float(devices.copies @ np.where(scarce(problem, optimum.response), priced, 0.0))
    return Worth(prices.band_price, energy, time)


class Lives(NamedTuple):
    """Days until the first, the median and the last battery is empty."""

    first: float
    median: float
    last: float


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a choice brings.

    Attributes:
        choice: how the fleet is run.
        devices_per_round, samples_per_day: scheduled.
        energy_per_device_round_j: for learning, in the mean over all devices and rounds.
        energy_per_turn_j: of a device that takes part in a round.
        turns_per_day: of each device.
        lives: of batteries; None where none is known.
        lives_without: the same without learning.
        air_time_s_per_day: for how long uploads would take the whole band.
        band_used: part of the band that is given away in a round.
        optimum: of its typical round.
    """

    choice: Choice
    devices_per_round: float
    samples_per_day: float
    energy_per_device_round_j: float
    energy_per_turn_j: float
    turns_per_day: Array
    lives: Lives | None
    lives_without: Lives | None
    air_time_s_per_day: float
    band_used: float
    optimum: Optimum

    @property
    def copies(self) -> Array:
        return self.optimum.devices.copies

    @property
    def mean_turns_per_day(self) -> float:
        return float(np.average(self.turns_per_day, weights=self.copies))


def forecast(choice: Choice, optimum: Optimum) -> Forecast:
    """What follows from the optimum of a choice's round."""
    devices, response, often = optimum.devices, optimum.response, choice.rounds_per_day
    copies = devices.copies
    per_round = float(copies @ response.turns)
    energy_j = float(copies @ response.energy_j)
    window_s = np.maximum(optimum.problem.work_time_s, 0.0)
    return Forecast(
        choice=choice,
        devices_per_round=per_round,
        samples_per_day=max(optimum.samples, 0.0) * often,
        energy_per_device_round_j=energy_j / devices.count,
        energy_per_turn_j=energy_j / per_round if per_round > 0 else 0.0,
        turns_per_day=response.turns * often,
        lives=lives(devices, response.energy_j * often),
        lives_without=lives(devices, np.zeros(copies.size)),
        air_time_s_per_day=float(copies @ (response.air * window_s)) * often,
        band_used=float(copies @ response.share),
        optimum=optimum,
    )


def battery_days(devices: Devices, learning_j_per_day: Array) -> Array:
    """Days until each battery is empty; infinite where nothing is drawn."""
    fleet = devices.fleet
    used_j = learning_j_per_day + fleet.sleep_power_w * DAY_S
    days: Array = np.divide(fleet.battery_j, used_j, out=np.full(used_j.size, np.inf), where=used_j > 0)
    return days


def lives(devices: Devices, learning_j_per_day: Array) -> Lives | None:
    """The first, median and last battery of the devices that have a known one."""
    known = devices.fleet.battery_j > 0
    if not known.any():
        return None
    days = battery_days(devices, learning_j_per_day)[known]
    return Lives(float(days.min()), weighted_quantile(days, devices.copies[known], 0.5), float(days.max()))


def weighted_quantile(values: Array, weight: Array, level: float) -> float:
    """The value that a part `level` of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    place = np.searchsorted(np.cumsum(weight[order]), level * weight.sum())
    return float(values[order[min(int(place), order.size - 1)]])


def gain_at(devices: Devices, factor: float) -> Array:
    """Channel power gains when fading takes a factor."""
    return usable_gain(devices.fleet.path_gain * factor)
