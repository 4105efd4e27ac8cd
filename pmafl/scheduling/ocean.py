"""OCEAN (J. Xu and H. Wang, "Client selection and bandwidth allocation in wireless federated learning
networks: a long-term perspective", IEEE Trans. Wireless Commun. 2021), as a benchmark.

It orders devices by queue over channel gain and optimises the bandwidth, but not the time: computing
takes what f_max takes, or a fixed fraction of the deadline. The CPU's energy is charged to the device
like any other.
"""

import numpy as np

from pmafl.allocation import (
    Allocation,
    Allocator,
    Frontier,
    Sets,
    bandwidth,
    energy,
    frontiers,
    smallest_share,
)
from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision, Plain, decide
from pmafl.scheduling.expansion import expand
from pmafl.wireless import Array, RoundProblem


def ocean(compute_fraction: float = 0.0) -> Plain:
    """The policy; 0 computes at f_max, above it is the fraction of the deadline given to computing."""
    if not 0 <= compute_fraction < 1:
        raise InputError(f"compute_fraction is {compute_fraction}; it must be from 0 (f_max) to below 1")

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        frontier = frontiers(problem)
        gain = np.maximum(problem.channel_gain, 1e-100)  # without a channel the rank does not matter
        compute = np.maximum(frontier.least_compute, compute_fraction)
        min_share = np.maximum(frontier.min_share, smallest_share(frontier, compute, 1 - compute))
        allocation = expand(problem, frontier, problem.queue_j / gain, min_share, _at_fixed_times(compute))
        return decide(problem, "ocean", allocation)

    return schedule


def _at_fixed_times(compute_fraction: Array) -> Allocator:
    """The allocator that only divides the band."""

    def allocate(frontier: Frontier, sets: Sets, weight: Array) -> Allocation:
        members, compute = frontier.take(sets.device), compute_fraction[sets.device]
        upload = 1 - compute
        share = bandwidth(members, sets, weight, compute, upload)
        energy_j = energy(members, share, compute, upload)
        unknown = np.full(sets.count, np.nan)
        return Allocation(sets, share, compute, upload, energy_j, sets.sum(weight * energy_j), unknown)

    return allocate
