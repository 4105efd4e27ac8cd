"""The exact allocation for given sets (the paper's P6): one price of band for each set.

P6 is jointly convex, so a price decomposes it: each device goes to the point of its frontier where band
is worth the price, and the price is right when the shares fill the band. Share against price is nearly a
straight line in logarithms, so a handful of Newton steps settle it.
"""

import numpy as np

from pmafl.allocation.frontier import Frontier, at_price, point, without_upload
from pmafl.allocation.roots import LEAST_SLOPE, NOT_ZERO, rising_root
from pmafl.allocation.sets import Allocation, Sets
from pmafl.wireless import Array


def joint(frontier: Frontier, sets: Sets, weight: Array) -> Allocation:
    """Minimises the weighted energy of each set over shares and times.

    Members of weight 0 get the smallest share they can live with, so that all other band serves the rest.
    """
    members = frontier.take(sets.device)
    if frontier.silent:
        return _nothing_to_upload(members, sets, weight)
    log_y = members.log_end.copy()
    paying = weight > 0
    payers = sets.members(paying)
    band = 1 - sets.sum(np.where(paying, 0.0, members.min_share))
    band = np.where(payers.size > 0, band, 1.0)
    log_price, log_y[paying] = _balance(
        members.take(np.flatnonzero(paying)), payers, np.log(weight[paying]), band
    )
    at = point(members, log_y)
    return Allocation(
        sets,
        at.share,
        at.compute_fraction,
        at.upload_fraction,
        at.energy_j,
        sets.sum(weight * at.energy_j),
        log_price,
    )


def _balance(members: Frontier, sets: Sets, log_weight: Array, band: Array) -> tuple[Array, Array]:
    """The price at which the members' shares fill each set's band, and log(y) of each member there."""
    start, log_y = _approach(members, sets, log_weight, band)

    def residual(log_price: Array) -> tuple[Array, Array]:
        nonlocal log_y
        log_y = at_price(members, log_price[sets.owner] - log_weight, log_y)
        at = point(members, log_y)
        elasticity = np.where(log_y < members.log_end, -at.share_slope / at.price_slope, 0.0)
        share = np.maximum(sets.sum(at.share), NOT_ZERO)
        return np.log(band / share), np.maximum(sets.sum(at.share * elasticity) / share, LEAST_SLOPE)

    low = sets.largest(point(members, members.log_start).log_price + log_weight)
    high = sets.largest(members.end_log_price + log_weight)
    log_price = rising_root(residual, low, np.maximum(low, high), start)
    return log_price, at_price(members, log_price[sets.owner] - log_weight, log_y)


def _approach(members: Frontier, sets: Sets, log_weight: Array, band: Array) -> tuple[Array, Array]:
    """A price and points close to the balance: Newton's method on all members and prices together.

    Each share is taken as a power of the price, with the exponent of its present point. It saves most of
    the nested search, but only that search is sure to end at the balance.
    """
    equal_share = band / np.maximum(sets.size, 1)
    log_y = np.minimum(np.log(1.5 * members.unit_share / equal_share[sets.owner]), members.log_end)
    end_log_price = members.end_log_price + log_weight
    log_price = np.zeros(sets.count)
    for turn in range(8):
        at = point(members, log_y)
        worth = at.log_price + log_weight
        if turn == 0:
            log_price = np.log(np.maximum(sets.sum(np.exp(worth) * at.share) / band, NOT_ZERO))
        exponent = at.share_slope / at.price_slope
        for _ in range(2):
            price = log_price[sets.owner]
            ended = price >= end_log_price
            share = at.share * np.exp(exponent * _within(price - worth, 20.0))
            share = np.where(ended, members.min_share, share)
            total = np.maximum(sets.sum(share), NOT_ZERO)
            slope = np.minimum(sets.sum(np.where(ended, 0.0, share * exponent)) / total, -0.01)
            log_price = log_price + _within(np.log(band / total) / slope, 5.0)
        step = _within((log_price[sets.owner] - worth) / at.price_slope, 2.0)
        step = np.minimum(log_y + step, members.log_end) - log_y
        log_y = log_y + step
        if np.abs(step).max(initial=0.0) < 1e-3:
            break
    return log_price, log_y


def _within(step: Array, largest: float) -> Array:
    """The step, but no longer than this; much faster than `np.clip` on a few numbers."""
    return np.minimum(np.maximum(step, -largest), largest)


def _nothing_to_upload(members: Frontier, sets: Sets, weight: Array) -> Allocation:
    none = np.zeros_like(weight)
    compute, energy_j = without_upload(members)
    free = np.full(sets.count, -np.inf)
    return Allocation(sets, none, compute, none, energy_j, sets.sum(weight * energy_j), free)
