"""Random scheduling without energy limitation, the paper's RS-WEL: a random order, until the band is full.

Nobody has an energy budget here: queues and caps are ignored, and the band is divided to spend the least
energy in all.
"""

from dataclasses import replace

import numpy as np

from pmafl.allocation import Sets, count_fitting, frontiers, joint
from pmafl.scheduling.decision import Decision, Plain, decide
from pmafl.wireless import RoundProblem


def rs_wel() -> Plain:
    """The policy; devices that cannot take part even alone are passed over."""

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        frontier = frontiers(replace(problem, energy_cap_j=np.full(problem.devices, np.inf)))
        order = rng.permutation(problem.devices)
        order = order[frontier.min_share[order] <= 1]
        fitting = count_fitting(frontier.min_share[order])
        sets = Sets.prefixes(order, [fitting])
        return decide(problem, "rs-wel", joint(frontier, sets, np.ones(fitting)))

    return schedule
