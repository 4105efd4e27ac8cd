"""Those whose last update is the oldest.

After H. H. Yang, A. Arafa, T. Q. S. Quek, H. V. Poor, "Age-based scheduling policy for federated learning in
mobile edge networks", ICASSP 2020. Theirs weighs ages against the sub-channels that a device would need; this
one takes ages alone, and leaves the weighing to what fits the band.
"""

import numpy as np

from pmafl.scheduling.choosing import able, allocate, best, check_count
from pmafl.scheduling.decision import Decision, Plain
from pmafl.wireless import RoundProblem


def oldest(count: int = 10) -> Plain:
    """The policy; `count` devices per round. Who never took part is older than anybody.

    Of those who waited equally long, chance decides.
    """
    check_count(count)

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        return allocate(problem, best(rng.permutation(able(problem)), problem.rounds_since, count), "oldest")

    return schedule
