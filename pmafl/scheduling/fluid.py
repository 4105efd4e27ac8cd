r"""What energy and band are worth in a typical round, for any number of devices.

In a typical round every channel takes each of its fading levels equally often, and one price holds for the
band. At prices mu of the joules and lambda of the band, in samples, a device takes part at the levels where
its samples D exceed what its energy E and its share theta cost. The prices minimise

.. math:: \sum_{k,l} w \log\bigl(1 + e^{g_{kl}/w}\bigr) + \sum_k \mu_k L \bar E_k + \lambda L, \qquad
          g_{kl} = D_k - \min_\theta (\mu_k E_{kl} + \lambda \theta)

over L levels, the relaxation's bound with the kink of max(0, g) rounded off by w. For a given lambda each
device's price is its own affair, one root each, so all are found by Newton's method on arrays; lambda is one
more root outside. Some thousand devices say nearly where it is, and all of them, taken a block at a time so
that memory stays bounded, have the last word.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import expit

from pmafl.allocation import (
    NOT_ZERO,
    Frontier,
    Point,
    at_price,
    limit_energy,
    open_frontiers,
    point,
    power_end,
    rising_root,
    set_ends,
    within,
    without_upload,
)
from pmafl.progress import Progress, ignore
from pmafl.wireless import Array, Index, Mask, RoundProblem, min_share, usable_gain

WIDTH = 0.01  # of the kink, as part of the mean device's samples
CUT = 25.0  # widths below 0: e^-25 of a turn is none
LEAST_PRICE = 1e-9  # as part of the highest
LOG_SMALLEST = float(np.log(LEAST_PRICE))
FIRST_BAND_PRICE = 10.0  # in mean devices' samples: where its search starts
BLOCK, CELLS = 8192, 16384  # devices, and devices times levels, at a time
MOST_THREADS = 8  # each has a block in memory
SAMPLES = (250, 4_000, 60_000)  # devices that the price of the band is first sought with
# With so many devices, so many times those of whom prices are known, at so many levels, prices are first
# sought with so many of the levels taken together.
MANY, SPARSE, MANY_LEVELS, TOGETHER = 4_001, 4, 16, 4
# The searches end after such steps of Newton's method on logarithms: what they leave is of second order.
PRICE_STEP, BAND_STEP = 1e-3, 1e-3
CLOSE = 3e-3  # miss of the log of a price from which one more step need not be looked at
ROUGHLY_CLOSE = 0.1  # the same where levels are taken together
SMALL_VALUE = 0.1
FREE_STEPS = 8  # of Newton's method without a bracket
LARGEST_STEP = 2.0
NEAR = 1.05  # a frontier's end is sought if its limits are as near as this
PASS_LEFT = 0.3  # of the work is left after a pass over all devices, as far as one can know
LEAST_SLOPE = 1e-6

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Plan:
    """Prices of a typical round in samples: of a joule of each device, and of the whole band."""

    energy_price: Array
    band_price: float


class Response(NamedTuple):
    """What devices do in a typical round at their prices, in the mean over levels; one entry per device."""

    turns: Array  # how often the device takes part
    energy_j: Array
    share: Array
    air: Array  # share of the band times part of the deadline that its uploads take
    upload: Array  # part of the deadline
    surplus: Array  # samples beyond what energy and band cost, with the kink rounded off
    rounding: Array  # part of it that the rounding alone brings


class Demand(NamedTuple):
    """What devices do at their prices, summed over levels, and the second derivatives of the objective F."""

    energy_j: Array
    share: Array
    energy_curve: Array  # d2F/dmu2
    cross_curve: Array  # d2F/dmu dlambda
    share_curve: Array  # d2F/dlambda2


def plan(
    problem: RoundProblem,
    fading: Array,
    budget_j: Array,
    progress: Progress = ignore,
    cap_j: Array | None = None,
    copies: Array | None = None,
    width: float = WIDTH,
    least_price: float = LEAST_PRICE,
) -> Plan:
    """The prices that minimise the objective.

    Args:
        problem: gives the cell and the devices with their mean gains; its queues and caps do not matter.
        fading: equally likely factors of the gains.
        budget_j: energy budgets per round.
        progress: is told now and then which part of the work is done.
        cap_j: the most that a device may spend in one round; left out: the budgets of all levels.
        copies: how many devices each one stands for; left out: itself alone.
        width: of the kink, as part of the mean device's samples.
        least_price: of a joule, as part of the highest; above 0, energy that brings nothing is not spent.
    """
    fleet = _Fleet(problem, fading, budget_j, cap_j, width, np.log(least_price))
    copies = np.ones(problem.devices) if copies is None else copies
    order = np.argsort(min_share(problem) / problem.samples, kind="stable")  # neighbours will be alike
    log_band = float(np.log(FIRST_BAND_PRICE * problem.samples.mean()))
    place, log_price = np.zeros(1), np.zeros(1)  # what is known of the prices along the order
    sizes = [*(size for size in SAMPLES if size < problem.devices), problem.devices]
    for index, size in enumerate(sizes):
        before, share = sum(sizes[:index]) / sum(sizes), size / sum(sizes)
        sample, weight = _sample(problem.devices, size)
        guess = np.interp(sample, place, log_price)

        def tell(part: float, before: float = before, share: float = share) -> None:
            progress(before + share * part)

        tell(0.0)
        weight = weight * copies[order[sample]]
        roughly_first = size >= max(MANY, SPARSE * place.size)
        log_price, log_band = fleet.balance(order[sample], weight, guess, log_band, tell, roughly_first)
        place = sample.astype(np.float64)
    progress(1.0)
    energy_price = np.empty(problem.devices)
    energy_price[order] = fleet.highest[order] * np.exp(log_price)
    return Plan(energy_price, float(np.exp(log_band)))


def respond(
    problem: RoundProblem,
    fading: Array,
    budget_j: Array,
    prices: Plan,
    cap_j: Array | None = None,
    width: float = WIDTH,
) -> Response:
    """What the devices do at given prices; the arguments are those of `plan`."""
    fleet = _Fleet(problem, fading, budget_j, cap_j, width)
    parts = []
    for start in range(0, problem.devices, BLOCK):
        device = np.arange(start, min(start + BLOCK, problem.devices))
        parts.append(_Block(fleet, device).response(prices.energy_price[device], prices.band_price))
    return Response(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _sample(devices: int, size: int) -> tuple[Index, Array]:
    """Places in the order of all devices, and how many devices each of them stands for.

    The first half are the first devices themselves: where the band is narrow, they alone matter.
    """
    if size == devices:
        return np.arange(devices), np.ones(devices)
    head = size // 2
    edge = np.linspace(head, devices, size - head + 1).round().astype(np.intp)
    middle = (edge[:-1] + edge[1:]) // 2
    return np.append(np.arange(head), middle), np.append(np.ones(head), np.diff(edge))


class _Fleet:
    """All devices. What has an entry for every level is made for a block of them at a time."""

    def __init__(
        self,
        problem: RoundProblem,
        fading: Array,
        budget_j: Array,
        cap_j: Array | None,
        width: float,
        log_least: float = LOG_SMALLEST,
    ) -> None:
        self.log_least = log_least
        self.levels, self.close = fading.size, CLOSE
        factor, count = np.unique(fading[fading > 0], return_counts=True)
        self.factor, self.count = factor[::-1], count[::-1].astype(np.float64)  # the best level first
        self.samples, self.budget_j = problem.samples, budget_j * self.levels
        at_best = replace(
            problem,
            channel_gain=usable_gain(problem.channel_gain * factor[-1]),
            # Left to itself, not even a single round may cost more than the budgets of all.
            energy_cap_j=self.budget_j if cap_j is None else cap_j,
        )
        self.frontier = open_frontiers(at_best)
        self.width = width * problem.samples.mean()
        # At this price levels that cost the budget or more are hopeless, all others leave some of it.
        worth = problem.samples + self.width * (np.log(self.levels) + CUT)
        self.highest = worth / np.maximum(budget_j, self.frontier.compute_j / self.levels)

    def coarse(self) -> "_Fleet":
        """The same with levels taken together, but for the best: nearly the same prices for less work."""
        first = np.append(0, np.arange(1, self.factor.size, TOGETHER))
        fleet = copy(self)
        fleet.count = np.add.reduceat(self.count, first)
        fleet.close = ROUGHLY_CLOSE
        fleet.factor = fleet.count / np.add.reduceat(self.count / self.factor, first)
        return fleet

    def balance(
        self,
        device: Index,
        weight: Array,
        log_price: Array,
        log_band: float,
        progress: Progress,
        roughly_first: bool,
    ) -> tuple[Array, float]:
        """Prices at which the devices, each taken `weight` times, use up their budgets and the band.

        Prices of energy are logarithms of parts of the highest.
        """
        log_price, response = log_price.copy(), np.zeros(device.size)
        seen, passes = log_band, 0
        coarse = self.coarse() if roughly_first and self.factor.size >= MANY_LEVELS else None

        def residual(log_band: Array) -> tuple[Array, Array]:
            nonlocal seen, passes
            seen = float(log_band[0])
            band_price, used, fall = np.exp(seen), 0.0, 0.0

            def work(start: int) -> tuple[slice, Array, Array, Demand]:
                here = slice(start, start + BLOCK)
                block, guess = _Block(self, device[here]), log_price[here]
                if coarse is not None and not passes:
                    guess, _ = _Block(coarse, device[here]).prices(guess, band_price)
                return here, block.highest, *block.prices(guess, band_price)

            for here, highest, found, demand in _in_order(work, range(0, device.size, BLOCK)):
                log_price[here] = found
                inner = found > self.log_least
                price_rise = np.where(
                    inner, -demand.cross_curve / np.maximum(demand.energy_curve, NOT_ZERO), 0.0
                )
                used += float(weight[here] @ demand.share)
                fall += float(weight[here] @ (demand.share_curve + demand.cross_curve * price_rise))
                response[here] = price_rise * band_price / (highest * np.exp(found))
                part = min(here.stop, device.size) / device.size
                progress(1 - PASS_LEFT**passes * (1 - (1 - PASS_LEFT) * part))
            passes += 1
            used = max(used, NOT_ZERO)
            slope = max(band_price * fall / used, LEAST_SLOPE)
            return np.array([np.log(self.levels / used)]), np.array([slope])

        low, high = log_band + LOG_SMALLEST, log_band - LOG_SMALLEST
        root = rising_root(
            residual, np.array([low]), np.array([high]), np.array([log_band]), BAND_STEP, SMALL_VALUE
        )
        step = float(root[0]) - seen
        return np.clip(log_price + response * step, self.log_least, 0.0), seen + step


def _in_order(work: Callable[[int], Result], tasks: Sequence[int]) -> Iterator[Result]:
    """What comes of the tasks, in their order. Threads share them: NumPy lets others run while it works."""
    if len(tasks) == 1:
        yield work(tasks[0])
        return
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS))
    try:
        # Each thread keeps the caller's way with overflows and the like.
        futures = deque(pool.submit(copy_context().run, work, task) for task in tasks)
        while futures:
            yield futures.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class _Block:
    """Some devices, with what is known of their frontiers at every level.

    A device at a level is a cell; cells stand in flat arrays, the best level of all devices first.
    """

    def __init__(self, fleet: _Fleet, device: Index) -> None:
        self.fleet, self.best, self.devices = fleet, fleet.frontier.take(device), device.size
        self.samples, self.budget_j = fleet.samples[device], fleet.budget_j[device]
        self.highest = fleet.highest[device]
        levels = fleet.factor.size
        self.log_y = np.full(levels * device.size, np.nan)  # where the device stood last
        self.log_start = np.tile(self.best.log_start, levels)
        self.log_end = np.tile(self.best.log_end, levels)
        self.min_share = np.tile(self.best.min_share, levels)
        self.capped, self.started = np.zeros((2, levels * device.size), bool)  # where these ends are known

    def prices(self, guess: Array, band_price: float) -> tuple[Array, Demand]:
        """Prices at which the devices use up their budgets, and what they do then."""
        seen, value, slope = np.full(self.devices, np.inf), np.zeros(self.devices), np.zeros(self.devices)
        demand = Demand(*np.zeros((5, self.devices)))

        def residual(log_price: Array) -> tuple[Array, Array]:
            moved = np.flatnonzero(np.abs(log_price - seen) > PRICE_STEP)
            seen[moved] = log_price[moved]
            price = self.highest[moved] * np.exp(log_price[moved])
            for whole, part in zip(demand, self._demand(moved, price, band_price), strict=True):
                whole[moved] = part
            used_j = np.maximum(demand.energy_j[moved], NOT_ZERO)
            value[moved] = np.log(np.maximum(self.budget_j[moved], NOT_ZERO) / used_j)
            slope[moved] = np.maximum(price * demand.energy_curve[moved] / used_j, LEAST_SLOPE)
            return value + slope * (log_price - seen), slope

        low, high = np.full(self.devices, self.fleet.log_least), np.zeros(self.devices)
        log_price = rising_root(residual, low, high, guess, PRICE_STEP, SMALL_VALUE)
        step = self.highest * (np.exp(log_price) - np.exp(seen))
        return log_price, demand._replace(share=np.maximum(demand.share - demand.cross_curve * step, 0.0))

    def _demand(self, device: Index, price: Array, band_price: float) -> Demand:
        """What some of the devices do at their prices.

        A worse channel never costs less: a device for which a level is hopeless is done with all that follow.
        """
        total = Demand(*np.zeros((5, device.size)))
        width, log_ratio, here = self.fleet.width, np.log(band_price / price), np.arange(device.size)
        first, levels = 0, self.fleet.factor.size
        while first < levels and here.size:
            end = min(first + max(CELLS // here.size, 1), levels)
            mu, shape = price[here], (end - first, here.size)
            cell = (np.arange(first, end)[:, None] * self.devices + device[here]).ravel()
            answer = self._respond(cell, np.tile(log_ratio[here], end - first), first)
            energy_j, share, rise_j, able = (values.reshape(shape) for values in answer)
            gain = np.where(able, self.samples[device[here]] - mu * energy_j - band_price * share, -np.inf)
            part = expit(gain / width)
            count = self.fleet.count[first:end, None]
            steep, part = count * part * (1 - part) / width, count * part
            total.energy_j[here] += (part * energy_j).sum(axis=0)
            total.share[here] += (part * share).sum(axis=0)
            rise_j *= part
            curve = (steep * energy_j * energy_j).sum(axis=0) + rise_j.sum(axis=0) / mu
            total.energy_curve[here] += curve
            curve = (steep * energy_j * share).sum(axis=0) - rise_j.sum(axis=0) / band_price
            total.cross_curve[here] += curve
            curve = (steep * share * share).sum(axis=0) + rise_j.sum(axis=0) * mu / band_price**2
            total.share_curve[here] += curve
            here, first = here[gain[-1] > -CUT * width], end
        return total

    def response(self, price: Array, band_price: float) -> Response:
        """What the devices do at their prices."""
        total = Response(*np.zeros((7, self.devices)))
        width, log_ratio = self.fleet.width, np.log(band_price / price)
        for level in range(self.fleet.factor.size):
            cell = level * self.devices + np.arange(self.devices)
            energy_j, share, _, able = self._respond(cell, log_ratio, level)
            gain = np.where(able, self.samples - price * energy_j - band_price * share, -np.inf)
            part, likely = expit(gain / width), self.fleet.count[level] / self.fleet.levels
            surplus = width * np.logaddexp(0, gain / width)
            air = (
                np.zeros(self.devices)
                if self.best.silent
                else self.best.unit_share / np.exp(self.log_y[cell])
            )
            upload = np.divide(air, share, out=np.zeros(self.devices), where=share > 0)
            gain = np.where(part > 0, gain, 0.0)
            values = (part, part * energy_j, part * share, part * air, part * upload, surplus)
            for whole, value in zip(total, (*values, surplus - part * gain), strict=True):
                whole += likely * value
        return total

    def _respond(self, cell: Index, log_ratio: Array, first: int) -> tuple[Array, Array, Array, Mask]:
        """What happens in cells from the level `first` on, where the price of band over energy has this log.

        Returns:
            energy, share, rise of the energy with the log, and whether the device is able to take part.
        """
        new = cell[np.isnan(self.log_y[cell])]
        if new.size:
            self._open(new, first)
        frontier = self._frontier(cell)
        if frontier.silent:  # nothing to upload
            nothing = np.zeros(cell.size)
            return without_upload(frontier)[1], nothing, nothing.copy(), frontier.min_share <= 1
        log_y, at = _settle(frontier, self.log_y[cell], log_ratio, self.fleet.close)
        costly = (NEAR * at.energy_j > frontier.energy_cap_j) & ~self.capped[cell]
        wide = (NEAR * at.share > 1) & ~self.started[cell]
        near = np.flatnonzero(costly | wide)
        if near.size:
            self._find_ends(cell[costly], cell[wide])
            frontier = self._frontier(cell)
            log_y[near], closer = _settle(frontier.take(near), log_y[near], log_ratio[near], self.fleet.close)
            _put(at, near, closer)
        newton = log_y + (log_ratio - at.log_price) / at.price_slope
        target = within(newton, frontier.log_start, frontier.log_end)
        self.log_y[cell] = target
        step, rise_j = target - log_y, -np.exp(at.log_price) * at.share * at.share_slope
        energy_j, share = at.energy_j + rise_j * step, at.share * np.exp(at.share_slope * step)
        rise_j = np.where(target == newton, rise_j / at.price_slope, 0.0)
        return energy_j, share, rise_j, frontier.min_share <= 1

    def _frontier(self, cell: Index) -> Frontier:
        level, device = np.divmod(cell, self.devices)
        best, factor = self.best, self.fleet.factor
        return Frontier(
            best.silent,
            best.circuits,
            best.unit_share[device],
            best.compute_j[device],
            best.upload_j[device] * (factor[0] / factor)[level],
            best.power_j[device],
            best.least_compute[device],
            best.circuit_j[device],
            best.standing_j[device],
            best.energy_cap_j[device],
            self.log_start[cell],
            self.log_end[cell],
            best.end_log_price[device],
            self.min_share[cell],
        )

    def _open(self, cell: Index, first: int) -> None:
        """Begins with new cells where the levels before them lead to, within the limits of power."""
        frontier = self._frontier(cell)
        self.log_y[cell] = 0.0
        if frontier.silent:
            return
        able = frontier.upload_j <= frontier.power_j * (1 - frontier.least_compute)
        self.min_share[cell] = np.where(able, frontier.min_share, np.inf)
        self.log_end[cell] = power_end(frontier)
        if first >= 2:
            level, device = np.divmod(cell, self.devices)
            last, before = (self.log_y[(first - back) * self.devices + device] for back in (1, 2))
            log_factor = np.log(self.fleet.factor)
            beyond = log_factor[level] - log_factor[first - 1]
            beyond /= log_factor[first - 1] - log_factor[first - 2]
            self.log_y[cell] = last + np.minimum(beyond, 2.0) * (last - before)

    def _find_ends(self, costly: Index, wide: Index) -> None:
        """Finds where frontiers meet their caps of energy, and where the whole band."""
        for cell, find in ((costly, limit_energy), (wide, set_ends)):
            frontier = self._frontier(cell)
            find(frontier)
            self.log_start[cell], self.log_end[cell] = frontier.log_start, frontier.log_end
            self.min_share[cell] = frontier.min_share
        self.capped[costly] = self.capped[wide] = self.started[wide] = True


def _settle(frontier: Frontier, log_y: Array, log_ratio: Array, close: float) -> tuple[Array, Point]:
    """Points so near to where band is worth its price that the frontier is straight between."""
    log_y = within(log_y, frontier.log_start, frontier.log_end)
    at = point(frontier, log_y)
    index, here, now = np.arange(log_y.size), log_y, at  # of those that are not near yet
    for turn in range(FREE_STEPS):
        miss = log_ratio - now.log_price
        step = within(miss / now.price_slope, -LARGEST_STEP, LARGEST_STEP)
        target = within(here + step, frontier.log_start, frontier.log_end)
        chosen = np.flatnonzero((np.abs(miss) > close) & (target != here))
        if not chosen.size:
            break
        index, frontier, log_ratio = index[chosen], frontier.take(chosen), log_ratio[chosen]
        here = target[chosen]
        if turn == FREE_STEPS - 1:
            here = at_price(frontier, log_ratio, here)
        now = point(frontier, here)
        log_y[index] = here
        _put(at, index, now)
    return log_y, at


def _put(whole: Point, chosen: Index, part: Point) -> None:
    for values, new in zip(whole, part, strict=True):
        values[chosen] = new
