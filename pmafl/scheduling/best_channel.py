"""Those with the strongest channels.

The scheme BC of M. M. Amiri, D. Gunduz, S. R. Kulkarni, H. V. Poor, "Convergence of update aware device
scheduling for federated learning at the wireless edge", IEEE Trans. Wireless Commun. 2021. It is the cheapest
choice of a given number of devices where they differ in their channels alone, and never fair to far ones.
"""

import numpy as np

from pmafl.scheduling.choosing import able, allocate, best, check_count
from pmafl.scheduling.decision import Decision, Plain
from pmafl.wireless import RoundProblem


def best_channel(count: int = 10) -> Plain:
    """The policy; `count` devices per round."""
    check_count(count)

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        return allocate(problem, best(able(problem), problem.channel_gain, count), "best-channel")

    return schedule
