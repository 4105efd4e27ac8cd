"""All devices in every round."""

import numpy as np

from pmafl.scheduling.decision import Decision, Policy
from pmafl.scheduling.given import allocate_given
from pmafl.wireless.problem import Mask, RoundProblem


def everyone() -> Policy:
    """The policy `all`; where they do not fit together there is no answer."""

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        return allocate_given(problem, choose_everyone(problem.devices, rng), "all")

    return schedule


def choose_everyone(devices: int, rng: np.random.Generator) -> Mask:
    """Everybody, without looking at the radio."""
    return np.ones(devices, bool)
