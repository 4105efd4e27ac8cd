"""Algorithm 2 of the paper: set expansion in the order of queue times estimated energy."""

import numpy as np

from pmafl.allocation import (
    ALLOCATORS,
    NOT_ZERO,
    Allocation,
    Frontier,
    Sets,
    awake,
    frontiers,
    time_division,
    without_upload,
)
from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision, Plain, decide
from pmafl.scheduling.expansion import expand, spares_energy
from pmafl.wireless import Array, RoundProblem


def set_expansion(inner: str = "joint", empty_queues: str = "least-energy") -> Plain:
    """The policy; `inner` names what allocates each set: `joint`, or the paper's own `alternating`.

    `empty_queues` is the rule where all queues of a set are empty: `least-energy` or `minimum-band`.
    """
    spare_energy = spares_energy(empty_queues)
    if inner not in ALLOCATORS:
        raise InputError(f"inner is {inner!r}; it must be one of {', '.join(ALLOCATORS)}")
    allocator = ALLOCATORS[inner]()

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        frontier = frontiers(problem)
        rank = _rank(problem, frontier)
        allocation = expand(problem, frontier, rank, frontier.min_share, allocator, spare_energy)
        return decide(problem, "set-expansion", allocation)

    return schedule


def sets_solved(problem: RoundProblem) -> int:
    """For how many sets Algorithm 2 solves the allocation P6 in a round, one after the other as printed."""
    frontier, allocator, solved = frontiers(problem), ALLOCATORS["joint"](), 0

    def counting(frontier: Frontier, sets: Sets, weights: Array) -> Allocation:
        nonlocal solved
        solved += int(np.count_nonzero(sets.size))
        return allocator(frontier, sets, weights)

    expand(problem, frontier, _rank(problem, frontier), frontier.min_share, counting, block=1)
    return solved


def _rank(problem: RoundProblem, frontier: Frontier) -> Array:
    """Log of queue times estimated energy."""
    rank: Array = np.log(np.maximum(problem.queue_j, NOT_ZERO)) + log_energy(frontier, 1 / problem.devices)
    return rank


def log_energy(frontier: Frontier, share: float) -> Array:
    """Log of each device's energy with an equal share of the band, the paper's estimate.

    With many devices an equal share is so small that nobody could really use it: the estimate then
    exceeds the power limit, and soon what a float can hold. Only its order matters.
    """
    if frontier.silent:
        return np.log(without_upload(frontier)[1])
    compute, upload = time_division(frontier, np.full(frontier.compute_j.size, share))
    y = frontier.unit_share / (share * upload)
    log_upload_j = np.log(frontier.upload_j) + y + np.log(-np.expm1(-y) / y)
    total: Array = np.logaddexp(np.log(frontier.compute_j) - 2 * np.log(compute), log_upload_j)
    more_j = awake(frontier, compute, upload)
    log_more = np.log(more_j, where=more_j > 0, out=np.full_like(more_j, -np.inf))
    return np.where(more_j > 0, np.logaddexp(total, log_more), total)
