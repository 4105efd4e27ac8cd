"""The exact allocation for given sets (the paper's P6): one price of band for each set.

P6 is jointly convex, so a price decomposes it: each device goes to the point of its frontier where band
is worth the price, and the price is right when the shares fill the band. Share against price is nearly a
straight line in logarithms, so a handful of Newton steps settle it.
"""

import numpy as np

from pmafl.allocation.frontier import Frontier, at_price, point, without_upload
from pmafl.allocation.roots import LEAST_SLOPE, NOT_ZERO, SMALL_STEP, rising_root, within
from pmafl.allocation.sets import Allocation, Sets
from pmafl.wireless import Array

TURNS = 10  # of Newton's method on members and prices together
LARGEST_STEP, LARGEST_PRICE_STEP = 2.0, 5.0  # of it
FARTHEST = 20.0  # log of a price that a share is still taken as a power of
FLATTEST = -1e-5  # slope of the share against the price, in logarithms
Guess = tuple[Array, Array]  # log of each set's price, and log(y) of each member


def joint(frontier: Frontier, sets: Sets, weight: Array, guess: Guess | None = None) -> Allocation:
    """Minimises the weighted energy of each set over shares and times.

    Members of weight 0 get the smallest share they can live with, so that all other band serves the rest.
    A guess, as from a neighbouring set, saves steps.
    """
    members = frontier.take(sets.device)
    if frontier.silent:
        return _nothing_to_upload(members, sets, weight)
    paying = weight > 0
    if np.count_nonzero(paying) == paying.size:
        log_price, log_y = _balance(members, sets, np.log(weight), np.ones(sets.count), guess)
    else:
        payers, chosen = sets.members(paying), np.flatnonzero(paying)
        band = 1 - sets.sum(np.where(paying, 0.0, members.min_share))
        band = np.where(payers.size > 0, band, 1.0)
        log_y = members.log_end.copy()
        if guess is not None:
            guess = guess[0], guess[1][chosen]
        log_price, log_y[chosen] = _balance(members.take(chosen), payers, np.log(weight[chosen]), band, guess)
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


def _balance(
    members: Frontier, sets: Sets, log_weight: Array, band: Array, guess: Guess | None
) -> tuple[Array, Array]:
    """The price at which the members' shares fill each set's band, and log(y) of each member there."""
    start, log_y, settled = _approach(members, sets, log_weight, band, guess)
    if settled:
        return start, log_y

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


def _approach(
    members: Frontier, sets: Sets, log_weight: Array, band: Array, guess: Guess | None
) -> tuple[Array, Array, bool]:
    """Newton's method on all members and prices together, and whether it has arrived.

    Each share is taken as a power of the price, with the exponent of its present point. Nearly always the
    steps become so small that nothing is left; where they do not, a nested search, which is sure to end at
    the balance, goes on from there.
    """
    filled = sets.size > 0
    if guess is None:
        equal_share = band / np.maximum(sets.size, 1)
        log_y = np.minimum(np.log(1.5 * members.unit_share / equal_share[sets.owner]), members.log_end)
        log_price = np.zeros(sets.count)
    else:
        log_price, log_y = guess
        log_y = np.minimum(log_y, members.log_end)
    end_log_price = members.end_log_price + log_weight
    settled = False
    for turn in range(TURNS):
        at = point(members, log_y)
        worth = at.log_price + log_weight
        if turn == 0 and guess is None:
            log_price = np.log(np.maximum(sets.sum(np.exp(worth) * at.share) / band, NOT_ZERO))
        exponent = at.share_slope / at.price_slope
        for _ in range(2):
            price = log_price[sets.owner]
            share = at.share * np.exp(exponent * within(price - worth, -FARTHEST, FARTHEST))
            moving = share
            ended = price >= end_log_price
            if np.count_nonzero(ended):
                share, moving = np.where(ended, members.min_share, share), np.where(ended, 0.0, share)
            total = np.maximum(sets.sum(share), NOT_ZERO)
            slope = np.minimum(sets.sum(moving * exponent) / total, FLATTEST)
            price_step = within(np.log(band / total) / slope, -LARGEST_PRICE_STEP, LARGEST_PRICE_STEP)
            log_price = log_price + price_step
            settled = not np.count_nonzero((np.abs(price_step) > SMALL_STEP) & filled)
            if settled:
                break
        step = within((log_price[sets.owner] - worth) / at.price_slope, -LARGEST_STEP, LARGEST_STEP)
        nearer = np.minimum(log_y + step, members.log_end)
        settled = settled and not np.count_nonzero(np.abs(nearer - log_y) > SMALL_STEP)
        log_y = nearer
        if settled:
            break
    return np.where(filled, log_price, 0.0), log_y, settled


def _nothing_to_upload(members: Frontier, sets: Sets, weight: Array) -> Allocation:
    none = np.zeros_like(weight)
    compute, energy_j = without_upload(members)
    free = np.full(sets.count, -np.inf)
    return Allocation(sets, none, compute, none, energy_j, sets.sum(weight * energy_j), free)
