"""Every set there is: the optimum of the round problem, for few devices."""

from dataclasses import replace

import numpy as np

from pmafl.allocation import Sets, energy_weights, frontiers, joint
from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision, Plain, decide, member_objective
from pmafl.wireless import RoundProblem

MOST_DEVICES = 16
BLOCK = 4096  # sets solved together


def exhaustive() -> Plain:
    """The policy; its objective is its own lower bound."""

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        devices = problem.devices
        if devices > MOST_DEVICES:
            raise InputError(f"exhaustive was given {devices} devices; it takes at most {MOST_DEVICES}")
        frontier = frontiers(problem)
        masks = np.arange(2**devices)[:, None] >> np.arange(devices) & 1 == 1
        needed = np.where(masks, frontier.min_share, 0.0).sum(axis=1)
        masks = masks[needed <= 1]
        best, best_objective = None, np.inf
        for first in range(0, len(masks), BLOCK):
            sets = Sets.from_masks(masks[first : first + BLOCK])
            allocation = joint(frontier, sets, energy_weights(problem.queue_j, sets))
            objectives = sets.sum(member_objective(problem, sets.device, allocation.energy_j))
            choice = int(objectives.argmin())
            if objectives[choice] < best_objective:
                best, best_objective = allocation.only(choice), objectives[choice]
        assert best is not None  # the empty set is always feasible
        decision = decide(problem, "exhaustive", best)
        return replace(decision, lower_bound=decision.objective, gap=0.0)

    return schedule
