"""Of a random few, those with the largest loss.

Y. J. Cho, J. Wang, G. Joshi, "Towards understanding biased client selection in federated learning", AISTATS
2022. Losses are those that devices reported when they last took part, as in its variant rpow-d, for asking
everybody would cost what scheduling saves.
"""

import numpy as np

from pmafl.scheduling.choosing import able, allocate, best, check_count
from pmafl.scheduling.decision import Decision, Plain
from pmafl.wireless import RoundProblem


def power_of_choice(count: int = 10, candidates: int = 30) -> Plain:
    """The policy; `candidates` are drawn in proportion to their samples, `count` of them are taken.

    As many candidates as `count` is a random draw without a choice. Who has reported no loss comes first.
    """
    check_count(count)
    check_count(candidates, "candidates")

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        devices = able(problem)
        devices = devices[problem.samples[devices] > 0]
        weight = problem.samples[devices]
        drawn = devices
        if candidates < devices.size:
            drawn = rng.choice(devices, candidates, replace=False, p=weight / weight.sum())
        loss = np.where(np.isnan(problem.last_loss), np.inf, problem.last_loss)
        return allocate(problem, best(drawn, loss, count), "power-of-choice")

    return schedule
