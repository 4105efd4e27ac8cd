"""Devices that bid for the band: who is willing to pay which price, and how much band they take at it."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from pmafl.allocation import (
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
USUAL_EXPONENT = 2.0  # of the share that devices take, as a power of their number


_KNOWN: WeakKeyDictionary[RoundProblem, Array] = WeakKeyDictionary()  # price limits, while a problem lives


@dataclass(frozen=True, eq=False)
class Market:
    """The devices that are worth their cost at some price; those that stay longest as it rises come first."""

    device: Index
    frontier: Frontier
    queue_j: Array
    value: Array
    log_limit: Array  # log of the price at which each one drops out, falling


def open_market(problem: RoundProblem) -> Market:
    """Finds every device's price limit and sorts by it."""
    frontier, queue_j, value = frontiers(problem), problem.queue_j, problem.value
    log_limit = np.concatenate(
        [log_price_limit(frontier.take(b), queue_j[b], value[b]) for b in blocks(problem.devices)]
    )
    _KNOWN[problem] = log_limit
    device = np.argsort(-log_limit, kind="stable")[: np.count_nonzero(log_limit > -np.inf)]
    return Market(device, frontier.take(device), queue_j[device], value[device], log_limit[device])


def log_price_limits(problem: RoundProblem, device: Index) -> Array:
    """The price limits of some devices, which need not be found again after a market of the problem."""
    if (known := _KNOWN.get(problem)) is not None:
        return known[device]
    frontier = frontiers(problem).take(device)
    return log_price_limit(frontier, problem.queue_j[device], problem.value[device])


def count_willing(market: Market) -> int:
    """How many devices, in order, fit the band at the lowest price that the last of them would pay."""
    if market.frontier.silent:
        return market.device.size
    log_y = market.frontier.log_end.copy()
    few, many = 0, 1 + count_fitting(market.frontier.min_share)
    log_few = log_many = np.nan  # logs of the shares that so many take, where known
    count, turn = many - 1, 0  # often all that can fit at all are willing
    while many - few > 1:
        log_share = _log_share(market, log_y[:count], market.log_limit[count - 1])
        if log_share <= 0:
            few, log_few = count, log_share
        else:
            many, log_many = count, log_share
        turn += 1
        count = (few + many) // 2 if turn % 3 == 0 else _filling(few, log_few, many, log_many)
    return few


def _log_share(market: Market, log_y: Array, log_price: float) -> float:
    """Log of the share that the first devices take at a price, exact where it decides whether they fit."""
    share, _ = offers(market, log_y, log_price, ROUGH_STEP, ROUGH_VALUE)
    log_share = float(np.log(share.sum()))
    if abs(log_share) > ROUGH_STEP:
        return log_share
    return float(np.log(offers(market, log_y, log_price)[0].sum()))


def _filling(few: int, log_few: float, many: int, log_many: float) -> int:
    """A number between the two that may just fill the band: share is much like a power of the number."""
    exponent = (log_many - log_few) / np.log(many / few) if few and log_many > log_few else USUAL_EXPONENT
    guess = many * np.exp(-log_many / exponent) if log_many > 0 else (few + many) / 2
    return int(np.clip(guess, few + 1, many - 1)) if many - few > 1 else few


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


def log_price_limit(frontier: Frontier, queue_j: Array, value: Array) -> Array:
    """Log of the price at which each device stops being worth its cost; minus infinity where it never is.

    At either end of its frontier a device takes no other share at another price, so all that its energy
    leaves of its worth can go into that share. In between, energy and band together must cost its worth.
    """
    wanted = (frontier.min_share <= 1) & (value > 0)
    if frontier.silent:
        return np.where(wanted & (value > queue_j * without_upload(frontier)[1]), np.inf, -np.inf)
    start, end = point(frontier, frontier.log_start), point(frontier, frontier.log_end)
    start_left, end_left = value - queue_j * start.energy_j, value - queue_j * end.energy_j
    starts = start_left <= queue_j * np.exp(start.log_price) * start.share
    ends = end_left >= queue_j * np.exp(end.log_price) * end.share
    affordable = np.where(ends, end_left / end.share, start_left / start.share)
    wanted &= start_left > 0
    log_limit = np.log(affordable, where=wanted, out=np.full(value.size, -np.inf))

    inner = np.flatnonzero(wanted & ~starts & ~ends)
    paying, log_worth_j = frontier.take(inner), np.log(value[inner] / queue_j[inner])

    def residual(log_y: Array) -> tuple[Array, Array]:
        at = point(paying, log_y)
        band_j = np.exp(at.log_price) * at.share
        cost_j = at.energy_j + band_j
        return np.log(cost_j) - log_worth_j, band_j / cost_j * at.price_slope

    log_y = rising_root(residual, paying.log_start, paying.log_end, paying.log_end)
    log_limit[inner] = point(paying, log_y).log_price + np.log(queue_j[inner])
    return log_limit
