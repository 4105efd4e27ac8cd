"""A fixed number of devices, drawn at random from all of them, whatever their channels and queues."""

import numpy as np

from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision, Plain
from pmafl.scheduling.given import allocate_fitting
from pmafl.wireless import Index, RoundProblem


def uniform(count: int = 10) -> Plain:
    """The policy; of devices that cannot take part, or do not fit together, the last drawn are dropped.

    Only devices that can be reached are drawn, all of them where they are fewer.
    """

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        return allocate_fitting(problem, choose_uniformly(problem, rng, count), "uniform")

    return schedule


def choose_uniformly(problem: RoundProblem, rng: np.random.Generator, count: int = 10) -> Index:
    """Who is drawn, in the order of the draw, without looking at the radio."""
    if not 1 <= count <= problem.devices:
        raise InputError(
            f"count of policy uniform is {count}; it must be from 1 to {problem.devices}, all devices"
        )
    here: Index = np.flatnonzero(problem.available)
    return here[rng.choice(here.size, min(count, here.size), replace=False)] if here.size else here
