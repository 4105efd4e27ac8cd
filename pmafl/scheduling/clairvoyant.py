"""How many samples any schedule of a run can reach, one that knows every channel in advance included.

The bound is the relaxation's, with one thing added that prices alone forget: a device takes part in a whole
number of rounds. If prices would have it take part 10.8 times, it takes part at most 10 times, or at least
11 times; the worse of both cases counts.
"""

from dataclasses import dataclass

import numpy as np

from pmafl.brief import brief
from pmafl.scheduling.relaxation import Case, Prices, Relaxation
from pmafl.wireless import Array, RoundProblem

WIDTHS = (0.1, 0.01, 0.001)


@brief
@dataclass(frozen=True, eq=False)
class Bound:
    """The best that a schedule can do.

    Attributes:
        samples: what no schedule exceeds, over all rounds.
        fractional_samples: the same if devices could take part in fractions of a round.
        energy_price: samples that one more joule of each device would bring.
        band_price: samples that one more band would bring in each round.
    """

    samples: float
    fractional_samples: float
    energy_price: Array
    band_price: Array


def clairvoyant(problem: RoundProblem, gain: Array, budget_j: Array) -> Bound:
    """The bound on the samples scheduled in all rounds, each counted as often as it is scheduled.

    Args:
        problem: gives the cell and the devices; gains, queues and caps in it do not matter.
        gain: channel power gains, shape (rounds, devices).
        budget_j: energy budgets per round; what counts is their sum over the rounds.
    """
    free = Relaxation(problem, gain, budget_j)
    prices = free.tighten(free.typical_prices(), WIDTHS)
    fractional = free.bound(prices)

    turns = np.floor(free.turns_taken(prices, WIDTHS[-1])[0])
    whole = Relaxation(problem, gain, budget_j, [Case(-1, turns), Case(1, turns + 1)])
    start = Prices(np.tile(prices.energy, (2, 1)), np.tile(0.02 * problem.samples, (2, 1)), prices.band)
    bound = whole.bound(whole.tighten(start, WIDTHS[1:]))
    return Bound(min(bound, fractional), fractional, prices.energy[0], prices.band)
