"""Policies that know the price of energy before the run, instead of waiting for queues to grow to it.

Such a policy decides a round like any other: the prices, in samples a joule, stand where the queues would,
and V is 1. They follow from what each device has spent, which every run saves, so a run with prices goes on
after a stop as exactly as any other.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmafl.brief import brief
from pmafl.scheduling.decision import Decision, Policy
from pmafl.wireless.problem import Array, RoundProblem


@brief
@dataclass(frozen=True, eq=False)
class Outlook:
    """What the server knows before the first round.

    Attributes:
        problem: a round with every channel at its mean.
        fading: equally likely factors of the channels, their law.
        budget_j: energy budgets a round.
        rounds: how many there will be.
    """

    problem: RoundProblem
    fading: Array
    budget_j: Array
    rounds: int


# The price of each device's energy, in samples a joule, from what it has spent and the number of rounds done.
EnergyPrices = Callable[[Array, int], Array]


@dataclass(frozen=True)
class PricedPolicy:
    """A policy with prices of its own. Under it budgets are hard: no device spends more than all of its own.

    Attributes:
        schedule: decides a round, with the prices as its queues.
        prices: makes the prices of a run.
    """

    schedule: Policy
    prices: Callable[[Outlook], EnergyPrices]

    def __call__(self, problem: RoundProblem, rng: np.random.Generator) -> Decision:
        return self.schedule(problem, rng)
