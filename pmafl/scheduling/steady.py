"""Scheduling at prices of energy that are right from the first round on.

The queues of the paper are prices that have to be learned: they start at 0, overspend until they have grown,
and idle until the excess is paid back. Here the prices come from the long-run problem of a typical round,
solved before the run with the law of the channels; the rounds are those of `dual`. A device that is ahead of
its plan pays more, one that is behind pays less, in proportion to what is left for the rounds to come, and no
device ever exceeds its budget. There is nothing to tune: prices are in samples, so the paper's V is gone.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from pmafl.progress import Progress, ignore, report
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.dual import dual
from pmafl.scheduling.pricing import EnergyPrices, Outlook, PricedPolicy
from pmafl.wireless.problem import Array, RoundProblem

TOLERANCE = 0.01  # of a round's objective; a finer choice at prices that are estimates brings nothing
LEAST_LEFT = 1e-9  # of a budget; what divides must not be 0


def steady() -> PricedPolicy:
    """The policy; in its problems `queue_j` is the price of a joule in samples, and V is 1."""
    decide = dual(TOLERANCE)

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        return replace(decide(problem, rng), policy="steady")

    def prices(outlook: Outlook) -> EnergyPrices:
        return hold(plan_prices(outlook, partial(report, "prices of energy")), outlook)

    return PricedPolicy(schedule, prices)


def hold(planned: Array, outlook: Outlook) -> EnergyPrices:
    r"""Prices that rise and fall so that budgets last.

    .. math:: \mu_k \, \frac{(T - t) \bar E_k}{T \bar E_k - E_k}

    where a device k has spent E in t of T rounds: planned for the rounds to come, over what is left for them.

    Args:
        planned: prices at which devices are expected to spend their budgets, mu.
        outlook: budgets and number of rounds.
    """
    total_j = outlook.rounds * outlook.budget_j

    def prices(spent_j: Array, rounds_done: int) -> Array:
        planned_j = (outlook.rounds - rounds_done) * outlook.budget_j
        left_j = np.maximum(total_j - spent_j, LEAST_LEFT * total_j)
        return planned * planned_j / left_j

    return prices


def plan_prices(outlook: Outlook, progress: Progress = ignore) -> Array:
    """What a joule of each device is worth if channels follow their law, in samples.

    One price holds for the band of all rounds: among many devices it hardly moves from round to round. Then
    only each device's own channel matters, and equal devices have equal prices.
    """
    from pmafl.scheduling.fluid import plan  # SciPy's special functions are slow to import

    return plan(outlook.problem, outlook.fading, outlook.budget_j, progress).energy_price
