"""A fixed number of devices, drawn at random from all of them, whatever their channels and queues."""

import numpy as np

from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision, Policy
from pmafl.scheduling.given import allocate_given
from pmafl.wireless.problem import Mask, RoundProblem


def uniform(count: int = 10) -> Policy:
    """The policy; where the drawn devices do not fit together there is no answer."""

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        return allocate_given(problem, choose_uniformly(problem.devices, rng, count), "uniform")

    return schedule


def choose_uniformly(devices: int, rng: np.random.Generator, count: int = 10) -> Mask:
    """Who is drawn, without looking at the radio."""
    if not 1 <= count <= devices or count != int(count):
        raise InputError(f"count of policy uniform is {count}; it must be from 1 to {devices}, all devices")
    chosen = np.zeros(devices, bool)
    chosen[rng.choice(devices, count, replace=False)] = True
    return chosen
