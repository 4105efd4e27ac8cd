"""What policies have in common that first choose devices by a rule of their own, then allocate them.

Such a rule ranks the devices that can take part at all; the best `count` of them are wanted, and as many as
fit the band together are scheduled, at the least energy.
"""

import numpy as np

from pmafl.allocation import frontiers
from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.given import allocate_fitting
from pmafl.wireless import Array, Index, RoundProblem


def check_count(count: int, what: str = "count") -> None:
    """Refuse a number of devices that is none."""
    if count < 1:
        raise InputError(f"{what} is {count}; it must be 1 or more")


def able(problem: RoundProblem) -> Index:
    """Numbers of the devices that can take part in the round at all, be it with the whole band."""
    return np.flatnonzero(frontiers(problem).min_share <= 1)


def best(devices: Index, score: Array, count: int) -> Index:
    """Those of the devices with the highest scores, the best first; of equals, the first in `devices`.

    `score` has one entry per device of the problem.
    """
    return devices[np.argsort(-score[devices], kind="stable")][:count]


def allocate(problem: RoundProblem, wanted: Index, policy: str) -> Decision:
    """Schedules as many of the wanted devices as fit, the first ones first."""
    return allocate_fitting(problem, wanted, policy, frontiers(problem))
