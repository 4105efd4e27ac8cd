"""Algorithm 1 of the paper: bandwidth and time division in turn, until a turn gains too little.

Each step is exact, but the power limit ties a device's time to its share, and alternating along such a
constraint can stop short of the optimum. `joint` does not; this one stays as the paper has it.
"""

import numpy as np

from pmafl.allocation.bandwidth import bandwidth
from pmafl.allocation.frontier import Frontier, energy, point
from pmafl.allocation.joint import joint
from pmafl.allocation.sets import Allocation, Allocator, Sets
from pmafl.allocation.time_division import time_division
from pmafl.wireless import Array

TURNS = 1000


def alternating(tolerance: float = 1e-9) -> Allocator:
    """The allocator that ends when a turn lowers the weighted energy of a set by no more than `tolerance`.

    It starts from the fastest computing and the smallest shares, which every feasible set allows.
    """

    def allocate(frontier: Frontier, sets: Sets, weight: Array) -> Allocation:
        if frontier.silent:
            return joint(frontier, sets, weight)
        members = frontier.take(sets.device)
        start = point(members, members.log_end)
        now = np.stack([start.share, start.compute_fraction, start.upload_fraction, start.energy_j])
        cost = sets.sum(weight * start.energy_j)
        turning = np.ones(sets.count, bool)
        for _ in range(TURNS):
            _, compute, upload, _ = now
            share = bandwidth(members, sets, weight, compute, upload)
            compute, upload = time_division(members, share)
            energy_j = energy(members, share, compute, upload)
            new_cost = sets.sum(weight * energy_j)
            now = np.where(turning[sets.owner], [share, compute, upload, energy_j], now)
            gain, cost = cost - new_cost, np.where(turning, new_cost, cost)
            turning &= gain > tolerance
            if not turning.any():
                break
        share, compute, upload, energy_j = now
        return Allocation(sets, share, compute, upload, energy_j, cost, np.full(sets.count, np.nan))

    return allocate
