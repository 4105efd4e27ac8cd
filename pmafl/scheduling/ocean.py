"""OCEAN (J. Xu and H. Wang, "Client selection and bandwidth allocation in wireless federated learning
networks: a long-term perspective", IEEE Trans. Wireless Commun. 2021), as a benchmark.

It orders devices by queue over channel gain and optimises the bandwidth, but not the time: computing
takes what f_max takes, or a fixed fraction of the deadline. The CPU's energy is charged to the device
like any other.

Its own paper could not be read here. As remembered, and so not verified: its run is cut into frames, at the
start of which queues return to 0 (`frame`); the number of clients is weighed with weights that rise over the
rounds (`first_weight` below `last_weight`). What shape they rise in is not remembered: here it is a straight
line. As remembered too, but not built: a V of its own for each frame, a least share for everyone, and an
objective that counts clients, where ours counts samples as the paper that we follow has it.
"""

from dataclasses import replace

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
from pmafl.scheduling.decision import Decision, decide
from pmafl.scheduling.expansion import expand, spares_energy
from pmafl.scheduling.policy import Outcome, Outlook, Policy, State
from pmafl.scheduling.queues import QueueState, advance
from pmafl.wireless import Array, RoundProblem

LARGEST_WEIGHT = 1e6


def ocean(
    compute_fraction: float = 0.0,
    empty_queues: str = "least-energy",
    frame: int = 0,
    first_weight: float = 1.0,
    last_weight: float = 1.0,
) -> Policy:
    """The policy.

    Args:
        compute_fraction: 0 computes at f_max, above it is the fraction of the deadline given to computing.
        empty_queues: the rule where all queues of a set are empty, `least-energy` or `minimum-band`.
        frame: after so many rounds queues return to 0; 0 never. They are then the policy's own.
        first_weight, last_weight: what V is multiplied with in the first and in the last round of a run, in
            a straight line between them. Equal to 1 they change nothing.
    """
    if not 0 <= compute_fraction < 1:
        raise InputError(f"compute_fraction is {compute_fraction}; it must be from 0 (f_max) to below 1")
    if frame < 0:
        raise InputError(f"frame is {frame}; it must be 0 (none) or a number of rounds")
    for name, weight in (("first_weight", first_weight), ("last_weight", last_weight)):
        if not 0 <= weight <= LARGEST_WEIGHT:
            raise InputError(f"{name} is {weight}; it must be from 0 to {LARGEST_WEIGHT:g}")
    spare_energy = spares_energy(empty_queues)
    weighted = (first_weight, last_weight) != (1.0, 1.0)

    def schedule(problem: RoundProblem) -> Decision:
        frontier = frontiers(problem)
        gain = np.maximum(problem.channel_gain, 1e-100)  # without a channel the rank does not matter
        compute = np.maximum(frontier.least_compute, compute_fraction)
        min_share = np.maximum(frontier.min_share, smallest_share(frontier, compute, 1 - compute))
        rank, allocator = problem.queue_j / gain, _at_fixed_times(compute)
        return decide(problem, "ocean", expand(problem, frontier, rank, min_share, allocator, spare_energy))

    def start(outlook: Outlook) -> State:
        if weighted and not outlook.rounds:
            raise InputError(
                "weights that change need the number of rounds; a problem in JSON has it in its outlook"
            )
        state = {"rounds": np.array(outlook.rounds)}
        if frame:
            state["queue_j"] = np.zeros(outlook.problem.devices)
        return state

    def decide_round(problem: RoundProblem, state: State, rng: np.random.Generator) -> Decision:
        last = max(int(state["rounds"]) - 1, 1)
        weight = first_weight + (last_weight - first_weight) * min(problem.round / last, 1.0)
        queue_j = problem.queue_j
        if frame:
            queue_j = state["queue_j"] * (problem.round % frame != 0)
        return schedule(replace(problem, tradeoff=problem.tradeoff * weight, queue_j=queue_j))

    def observe(state: State, problem: RoundProblem, decision: Decision, outcome: Outcome) -> State:
        if not frame:
            return state
        if np.isnan(problem.budget_j).any():
            device = int(np.isnan(problem.budget_j).argmax())
            raise InputError(f"frames need budgets, and device {device} has none; give it its budget_j")
        before = QueueState(state["queue_j"] * (problem.round % frame != 0), np.zeros(problem.devices))
        return {**state, "queue_j": advance(before, outcome.energy_j, problem.budget_j).queue_j}

    if not frame and not weighted:
        return Policy(lambda problem, state, rng: schedule(problem))
    return Policy(decide_round, start, observe, looks_ahead=weighted)


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
