"""Set expansion: add devices one by one in a given order for as long as the last one is worth its energy.

The skeleton of the paper's Algorithm 2 and of OCEAN, which differ in the order and in what is optimised
for each set. Prefixes of the order are solved together, a block at a time.
"""

import numpy as np

from pmafl.allocation import Allocation, Allocator, Frontier, Sets, count_fitting, energy_weights
from pmafl.errors import InputError
from pmafl.scheduling.decision import member_objective
from pmafl.wireless import Array, RoundProblem

BLOCK = 32
EMPTY_QUEUES = {"least-energy": True, "minimum-band": False}  # what to do in a set where all queues are empty


def spares_energy(empty_queues: str) -> bool:
    """Whether devices with empty queues, alone in a set, are given the left-over band to save energy.

    `minimum-band` is the paper as printed: their energy costs nothing, so each gets the least band that it
    can live with, and runs at full clock and power. `least-energy` has the same objective.
    """
    if empty_queues not in EMPTY_QUEUES:
        raise InputError(f"empty_queues is {empty_queues!r}; it must be one of {', '.join(EMPTY_QUEUES)}")
    return EMPTY_QUEUES[empty_queues]


def expand(
    problem: RoundProblem,
    frontier: Frontier,
    rank: Array,
    min_share: Array,
    allocator: Allocator,
    spare_energy: bool = True,
    block: int = BLOCK,
) -> Allocation:
    """The best of the sets made by adding devices in order of rank.

    Devices with an empty queue cost nothing and come first, all at once. When they do not fit the band
    together (in the first round all queues are empty), those with the most samples per share they need
    are kept. The order ends at the first device that does not fit, or is not worth its energy in its set.

    Args:
        problem: the round.
        frontier: the devices' frontiers.
        rank: the lower, the earlier; only compared among devices with a queue.
        min_share: share that each device needs at least, under the allocator's rules.
        allocator: solves the sets.
        spare_energy: see `spares_energy`.
        block: sets solved together; with 1 none is solved that the algorithm does not ask for.
    """
    wanted = (min_share <= 1) & (problem.samples > 0)
    free = np.flatnonzero(wanted & (problem.queue_j == 0))
    free = free[np.argsort(min_share[free] / problem.samples[free], kind="stable")]
    free = free[: count_fitting(min_share[free])]
    paid = np.flatnonzero(wanted & (problem.queue_j > 0))
    order = np.concatenate([free, paid[np.argsort(rank[paid], kind="stable")]])
    fitting = count_fitting(min_share[order])

    def solve(lengths: range) -> tuple[Allocation, Array]:
        sets = Sets.prefixes(order, lengths)
        allocation = allocator(frontier, sets, energy_weights(problem.queue_j, sets, spare_energy))
        return allocation, member_objective(problem, sets.device, allocation.energy_j)

    length = free.size
    best, losses = solve(range(length, length + 1))
    best_objective = losses.sum()
    while length < fitting:
        lengths = range(length + 1, min(length + block, fitting) + 1)
        allocation, losses = solve(lengths)
        objectives = allocation.sets.sum(losses)
        last_loss = losses[np.cumsum(allocation.sets.size) - 1]
        kept = int(np.argmax(np.append(last_loss > 0, True)))
        if kept and objectives[:kept].min() < best_objective:
            choice = int(objectives[:kept].argmin())
            best, best_objective = allocation.only(choice), objectives[choice]
        if kept < len(lengths):
            break
        length = lengths[-1]
    return best
