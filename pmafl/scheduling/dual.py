"""Scheduling by the price of the band, with a certificate.

At a price, whether to take a device is its own affair: take it if what it is worth, V*D, exceeds the
least that its energy and its share cost. The sum of these bargains, minus the price, is a lower bound on
the objective of every schedule (weak duality). The price at which the willing devices just fill the band
gives the best bound, and almost the best set: a few single adds, drops and swaps, tried only where the
bound leaves room, do the rest.
"""

import numpy as np

from pmafl.allocation.joint import joint
from pmafl.allocation.sets import Allocation, Sets, energy_weights
from pmafl.scheduling.decision import Decision, Policy, decide
from pmafl.scheduling.market import Market, count_willing, offers, open_market
from pmafl.wireless.problem import Array, Mask, RoundProblem

WINDOW = 32  # devices on either side of the margin that may change sides
TRIALS = 16  # neighbouring sets solved in a step


def dual(tolerance: float = 1e-4) -> Policy:
    """The policy; it stops improving once the gap is below `tolerance` times the bound."""

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        market = open_market(problem)
        allocation, bound = _schedule(market, tolerance)
        return decide(problem, "dual", allocation.named(market.device), bound)

    return schedule


def _schedule(market: Market, tolerance: float) -> tuple[Allocation, float]:
    """The best allocation found and the lower bound."""
    willing = count_willing(market)
    default = np.arange(min(willing + WINDOW, market.device.size)) < willing
    allocation, objectives = _solve(market, default[None, :])
    objective = objectives[0]
    log_margin = market.log_limit[willing] if willing < market.device.size else -np.inf
    priced = market.queue_j[:willing].any()
    if log_margin == -np.inf or (priced and allocation.log_price[0] >= log_margin):
        return allocation, objective  # the price that fills the band keeps exactly these: optimal

    _, loss = offers(market, market.frontier.log_end[: default.size].copy(), log_margin)
    bound = float(loss[:willing].sum() - np.exp(log_margin))
    penalty = np.abs(loss)  # what the bound rises by when a device is not where the price puts it
    chosen = default
    while objective - bound > tolerance * abs(bound):
        neighbours = _neighbours(market, chosen, chosen != default, penalty, objective - bound)
        if not len(neighbours):
            break
        trial, objectives = _solve(market, neighbours)
        best = int(np.argmin(objectives))
        if objectives[best] >= objective:
            break
        chosen, objective, allocation = neighbours[best], objectives[best], trial.only(best)
    return allocation, bound


def _neighbours(market: Market, chosen: Mask, moved: Mask, penalty: Array, room: float) -> Mask:
    """Sets one add, drop or swap away that the bound allows to be better, the most promising first.

    Args:
        market: the devices.
        chosen: the present set.
        moved: who is not where the margin's price puts them.
        penalty: what that adds to the lower bound of a set.
        room: objective of the present set minus the bound.
    """
    nobody = chosen.size  # a last entry to drop or add where a move does only one of them
    change = np.append(np.where(moved, -penalty, penalty), 0.0)
    min_share = np.append(market.frontier.min_share[:nobody], 0.0)
    near = np.arange(nobody) >= nobody - 2 * WINDOW
    drop = np.append(np.flatnonzero(near & chosen), nobody)
    add = np.append(np.flatnonzero(near & ~chosen), nobody)
    rise = penalty[moved].sum() + change[drop][:, None] + change[add]
    band = min_share[:nobody][chosen].sum() - min_share[drop][:, None] + min_share[add]
    rise[band > 1] = np.inf
    rise[-1, -1] = np.inf
    ranked = np.argsort(rise, axis=None)[:TRIALS]
    ranked = ranked[rise.flat[ranked] < room]
    sets = np.tile(np.append(chosen, False), (ranked.size, 1))
    row = np.arange(ranked.size)
    sets[row, drop[ranked // add.size]] = False
    sets[row, add[ranked % add.size]] = True
    return sets[:, :nobody]


def _solve(market: Market, masks: Mask) -> tuple[Allocation, Array]:
    """The best allocation of each set, and its objective."""
    sets = Sets.from_masks(masks)
    allocation = joint(market.frontier, sets, energy_weights(market.queue_j, sets))
    cost = market.queue_j[sets.device] * allocation.energy_j
    return allocation, sets.sum(cost - market.value[sets.device])
