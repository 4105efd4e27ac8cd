"""As many devices as fit the deadline, greedily.

T. Nishio, R. Yonetani, "Client selection for federated learning with heterogeneous resources in mobile edge",
ICC 2019. There, devices upload one after another, each at full power, and the one that prolongs the round
least is added until the deadline. Here they upload at the same time and share the band, so what a device uses
up is band instead of time: the one that needs the least of it, at full clock and power, is added until the
band is full. That schedules as many devices as possible.
"""

import numpy as np

from pmafl.allocation import frontiers
from pmafl.scheduling.choosing import able, allocate, best, check_count
from pmafl.scheduling.decision import Decision, Plain
from pmafl.wireless import RoundProblem


def fedcs(candidates: int | None = None) -> Plain:
    """The policy; `candidates` are drawn at random in a round and asked for their resources, or all are."""
    if candidates is not None:
        check_count(candidates, "candidates")

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        asked = able(problem)
        if candidates is not None and candidates < asked.size:
            asked = np.sort(rng.choice(asked, candidates, replace=False))
        need = frontiers(problem).min_share
        return allocate(problem, best(asked, -need, asked.size), "fedcs")

    return schedule
