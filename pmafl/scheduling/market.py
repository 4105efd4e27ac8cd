"""Devices that bid for the band: who is willing to pay which price, and how much band they take at it."""

from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pmafl.allocation import (
    NOT_ZERO,
    SMALL_STEP,
    SMALL_VALUE,
    Frontier,
    at_price,
    blocks,
    count_fitting,
    frontiers,
    point,
    rising_root,
    without_upload,
)
from pmafl.wireless import Array, Index, RoundProblem

# A rough search ends with a step of Newton's method like these: its error is far below the step.
ROUGH_STEP, ROUGH_VALUE = 0.01, 0.1


_KNOWN: WeakKeyDictionary[RoundProblem, Array] = WeakKeyDictionary()  # price limits, while a problem lives


@dataclass(frozen=True, eq=False)
class Market:
    """The devices that are worth their cost at some price; those that stay longest as it rises come first."""

    device: Index
    frontier: Frontier
    queue_j: Array
    value: Array
    log_limit: Array  # log of the price at which each one drops out, falling
    log_y: Array  # where it stands on its frontier then
    share: Array  # of the band that it takes
    exponent: Array  # of that share, as a power of the price


def open_market(problem: RoundProblem) -> Market:
    """Finds every device's price limit and sorts by it."""
    frontier, queue_j, value = frontiers(problem), problem.queue_j, problem.value
    parts = [price_limits(frontier.take(b), queue_j[b], value[b]) for b in blocks(problem.devices)]
    limits = Limits(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    log_limit = _KNOWN[problem] = limits.log_price
    device = np.argsort(-log_limit, kind="stable")[: np.count_nonzero(log_limit > -np.inf)]
    at_limit = (values[device] for values in limits)
    return Market(device, frontier.take(device), queue_j[device], value[device], *at_limit)


def log_price_limits(problem: RoundProblem, device: Index) -> Array:
    """The price limits of some devices, which need not be found again after a market of the problem."""
    if (known := _KNOWN.get(problem)) is not None:
        return known[device]
    frontier = frontiers(problem).take(device)
    return price_limits(frontier, problem.queue_j[device], problem.value[device]).log_price


def count_willing(market: Market) -> tuple[int, Array]:
    """How many devices, in order, fit the band at the lowest price that the last of them would pay.

    Also gives about where all devices stand at that price.
    """
    log_y = market.log_y.copy()
    if market.frontier.silent:
        return market.device.size, log_y
    few, many = 0, 1 + count_fitting(market.frontier.min_share)
    expected = _expected(market, many - 1)
    turn, excess = 0, 0.0
    while many - few > 1:
        count = int(np.searchsorted(expected, -excess, side="right"))
        turn += 1
        count = (few + many) // 2 if turn % 3 == 0 else min(max(count, few + 1), many - 1)
        log_share = _log_share(market, log_y[:count], market.log_limit[count - 1])
        excess = log_share - expected[count - 1]
        if log_share <= 0:
            few = count
        else:
            many = count
    return few, log_y


def _expected(market: Market, most: int) -> Array:
    """Log of the share that one device, the first two, the first three and so on may take together.

    Each count is asked at the limit of its last device. Shares are taken as powers of the price with one
    exponent, which is much the same for all.
    """
    share, log_limit = market.share[:most], market.log_limit[:most]
    exponent = np.minimum(share @ market.exponent[:most] / max(share.sum(), NOT_ZERO), 0.0)
    fall = exponent * (log_limit[0] - log_limit) if most else log_limit
    expected: Array = np.log(np.cumsum(share * np.exp(fall))) - fall
    return expected


def _log_share(market: Market, log_y: Array, log_price: float) -> float:
    """Log of the share that the first devices take at a price, exact where it decides whether they fit."""
    share, _ = offers(market, log_y, log_price, ROUGH_STEP, ROUGH_VALUE)
    log_share = float(np.log(share.sum()))
    if abs(log_share) > ROUGH_STEP:
        return log_share
    return float(np.log(offers(market, log_y, log_price)[0].sum()))


def offers(
    market: Market,
    log_y: Array,
    log_price: float,
    small_step: float = SMALL_STEP,
    small_value: float = SMALL_VALUE,
) -> tuple[Array, Array]:
    """What each of the first devices does at a price: its share, and its cost beyond its worth.

    The cost is queue-weighted energy plus price times share, at its least; below the worth the device is
    willing, and the second value negative.

    Args:
        market: the devices.
        log_y: a guess for each of the first devices, replaced by their points on the frontier.
        log_price: log of the price of the whole band.
        small_step, small_value: when the search of the points may end, see `rising_root`.
    """
    first = slice(0, log_y.size)
    frontier, queue_j = market.frontier.take(first), market.queue_j[first]
    log_queue = np.log(queue_j, where=queue_j > 0, out=np.full(queue_j.size, -np.inf))
    log_y[:] = at_price(frontier, log_price - log_queue, log_y, small_step, small_value)
    at = point(frontier, log_y)
    loss = queue_j * at.energy_j + np.exp(log_price) * at.share - market.value[first]
    return at.share, loss


class Limits(NamedTuple):
    """The price at which each device stops being worth its cost, and what it does then; see `Market`.

    The log of the price is minus infinity where the device never is worth its cost.
    """

    log_price: Array
    log_y: Array
    share: Array
    exponent: Array


def price_limits(frontier: Frontier, queue_j: Array, value: Array) -> Limits:
    """The limit of each device.

    At either end of its frontier a device takes no other share at another price, so all that its energy
    leaves of its worth can go into that share. In between, energy and band together must cost its worth.
    """
    wanted = (frontier.min_share <= 1) & (value > 0)
    if frontier.silent:
        nothing = np.zeros_like(value)
        willing = wanted & (value > queue_j * without_upload(frontier)[1])
        return Limits(np.where(willing, np.inf, -np.inf), nothing, nothing, nothing)
    start, end = point(frontier, frontier.log_start), point(frontier, frontier.log_end)
    start_left, end_left = value - queue_j * start.energy_j, value - queue_j * end.energy_j
    start_band_j, end_band_j = np.exp(start.log_price) * start.share, np.exp(end.log_price) * end.share
    starts, ends = start_left <= queue_j * start_band_j, end_left >= queue_j * end_band_j
    affordable = np.where(ends, end_left / end.share, start_left / start.share)
    wanted &= start_left > 0
    log_limit = np.log(affordable, where=wanted, out=np.full(value.size, -np.inf))
    log_y = np.where(ends, frontier.log_end, frontier.log_start)

    inner = np.flatnonzero(wanted & ~starts & ~ends)
    paying, log_worth_j = frontier.take(inner), np.log(value[inner] / queue_j[inner])

    def residual(log_y: Array) -> tuple[Array, Array]:
        at = point(paying, log_y)
        band_j = np.exp(at.log_price) * at.share
        cost_j = at.energy_j + band_j
        return np.log(cost_j) - log_worth_j, band_j / cost_j * at.price_slope

    start_cost_j, end_cost_j = start.energy_j + start_band_j, end.energy_j + end_band_j
    excess, shortfall = np.log(end_cost_j[inner]) - log_worth_j, log_worth_j - np.log(start_cost_j[inner])
    slope = (end_band_j / end_cost_j * end.price_slope)[inner]
    back = _way_back(excess, shortfall, slope, paying.log_end - paying.log_start)
    log_y[inner] = rising_root(residual, paying.log_start, paying.log_end, paying.log_end - back)
    at = point(frontier, log_y)
    log_limit[inner] = at.log_price[inner] + np.log(queue_j[inner])
    exponent = np.zeros_like(value)
    exponent[inner] = (at.share_slope / at.price_slope)[inner]
    return Limits(log_limit, log_y, at.share, exponent)


def _way_back(excess: Array, shortfall: Array, slope: Array, length: Array) -> Array:
    """How far before the end of a curve it is 0, if it is a parabola.

    It is `excess` above 0 at the end, with this slope, and `shortfall` below 0 at its start.
    """
    bend = (slope - (excess + shortfall) / length) / length
    return 2.0 * excess / (slope + np.sqrt(np.maximum(slope * slope - 4.0 * bend * excess, 0.0)))
