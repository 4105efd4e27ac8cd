"""All devices in every round, or as many of them as can take part."""

import numpy as np

from pmafl.allocation import frontiers
from pmafl.scheduling.decision import Decision, Plain
from pmafl.scheduling.given import allocate_fitting
from pmafl.wireless import SMALLEST, Index, RoundProblem


def everyone() -> Plain:
    """The policy `all`; where they do not fit together, those with the fewest samples per share are dropped.

    The share is the least that the device can live with. By this order the most samples fit the band, but for
    the last device, as in the first round of the paper's algorithm, when nobody has a queue.
    """

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        frontier = frontiers(problem)
        share = np.minimum(frontier.min_share, 2.0)  # above 1 nobody takes part, however much above
        order = np.argsort(share / np.maximum(problem.samples, SMALLEST), kind="stable")
        order = order[problem.available[order]]
        return allocate_fitting(problem, order, "all", frontier)

    return schedule


def choose_everyone(problem: RoundProblem, rng: np.random.Generator) -> Index:
    """Everybody who can be reached, without looking at the radio."""
    return np.flatnonzero(problem.available)
