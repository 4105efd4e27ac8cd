"""Scheduling by the price of the band, with a certificate.

At a price, whether to take a device is its own affair: take it if what it is worth, V*D, exceeds the
least that its energy and its share cost. The sum of these bargains, minus the price, is a lower bound on
the objective of every schedule (weak duality). The price at which the willing devices just fill the band
gives the best bound, and almost the best set: a few single adds, drops and swaps, tried only where the
bound leaves room, do the rest.
"""

import numpy as np

from pmafl.allocation import Allocation, Sets, energy_weights, joint
from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision, Plain, decide, member_objective
from pmafl.scheduling.market import Market, count_willing, offers, open_market
from pmafl.wireless import Array, Mask, RoundProblem

WINDOW = 32  # devices on either side of the margin that may change sides
TRIALS = 8  # neighbouring sets solved in a step
LOG_NOTHING = -500.0  # log of a price that is as good as 0


def dual(tolerance: float = 1e-3) -> Plain:
    """The policy; it stops improving once the gap is below `tolerance` times the bound."""
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance}; it must be 0 or more")

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        market = open_market(problem)
        allocation, bound = _schedule(market, tolerance)
        return decide(problem, "dual", allocation.named(market.device), bound)

    return schedule


def _schedule(market: Market, tolerance: float) -> tuple[Allocation, float]:
    """The best allocation found and the lower bound."""
    willing, log_y = count_willing(market)
    chosen = np.arange(min(willing + WINDOW, market.device.size)) < willing
    log_y = log_y[: chosen.size]
    log_price = market.log_limit[willing - 1] if market.queue_j[:willing].any() else LOG_NOTHING
    allocation, objectives = _solve(market, chosen[None, :], log_price, log_y)
    objective, log_price = objectives[0], _log_price(market, chosen, allocation)
    if willing == market.device.size or log_price >= market.log_limit[willing]:
        return allocation, objective  # the price that fills the band keeps exactly these: optimal

    log_margin = market.log_limit[willing]
    margin_loss = offers(market, log_y, log_margin)[1]
    bound = float(margin_loss[:willing].sum() - np.exp(log_margin))
    losses = {log_margin: margin_loss}
    while objective - bound > tolerance * abs(bound):
        for log_level in {LOG_NOTHING, log_price} - losses.keys():
            guess = log_y if log_level > LOG_NOTHING else market.frontier.log_start[: chosen.size].copy()
            losses[log_level] = offers(market, guess, log_level)[1]
        neighbours = _neighbours(market, chosen, losses, objective)
        if not len(neighbours):
            break
        trial, objectives = _solve(market, neighbours, log_price, log_y)
        best = int(np.argmin(objectives))
        if objectives[best] >= objective:
            break
        chosen, objective, allocation = neighbours[best], objectives[best], trial.only(best)
        log_price = _log_price(market, chosen, allocation)
    return allocation, bound


def _log_price(market: Market, chosen: Mask, allocation: Allocation) -> float:
    """Log of what band is worth to a set: nothing to one without queues."""
    return float(allocation.log_price[0]) if market.queue_j[: chosen.size][chosen].any() else LOG_NOTHING


def _neighbours(market: Market, chosen: Mask, losses: dict[float, Array], objective: float) -> Mask:
    """Sets one add, drop or swap away that may be better than the chosen one, the most promising first.

    At any price, the losses of a set's members minus the price are a lower bound on its objective; the best
    of these bounds ranks the sets, and rules out those that it puts above the present objective.
    """
    nobody = chosen.size  # a last entry to drop or add where a move does only one of them
    near = np.arange(nobody) >= nobody - 2 * WINDOW
    drop = np.append(np.flatnonzero(near & chosen), nobody)
    add = np.append(np.flatnonzero(near & ~chosen), nobody)

    def totals(values: Array) -> Array:
        """The sum of values over each neighbour's members, by dropped and added device."""
        extended = np.append(values, 0.0)
        total: Array = values[chosen].sum() - extended[drop][:, None] + extended[add]
        return total

    bound = np.max([totals(loss) - np.exp(log_price) for log_price, loss in losses.items()], axis=0)
    bound[totals(market.frontier.min_share[:nobody]) > 1] = np.inf
    bound[-1, -1] = np.inf
    ranked = np.argsort(bound, axis=None)[:TRIALS]
    ranked = ranked[bound.flat[ranked] < objective]
    sets = np.tile(np.append(chosen, False), (ranked.size, 1))
    row = np.arange(ranked.size)
    sets[row, drop[ranked // add.size]] = False
    sets[row, add[ranked % add.size]] = True
    return sets[:, :nobody]


def _solve(market: Market, masks: Mask, log_price: float, log_y: Array) -> tuple[Allocation, Array]:
    """The best allocation of each set, and its objective; the search starts at a price, and points at it."""
    sets = Sets.from_masks(masks)
    guess = None
    if log_price > LOG_NOTHING:
        guess = np.full(sets.count, log_price), log_y[sets.device]
    allocation = joint(market.frontier, sets, energy_weights(market.queue_j, sets), guess)
    return allocation, sets.sum(member_objective(market, sets.device, allocation.energy_j))
