"""A set that somebody else has chosen: its best allocation, or the reason why there is none."""

from collections.abc import Callable

import numpy as np

from pmafl.allocation.frontier import frontiers
from pmafl.allocation.joint import joint
from pmafl.allocation.sets import Sets, energy_weights
from pmafl.errors import NoAnswer
from pmafl.scheduling.decision import Decision, Policy, decide
from pmafl.scheduling.reasons import unable
from pmafl.wireless.problem import Mask, RoundProblem


def allocate_given(problem: RoundProblem, scheduled: Mask, policy: str) -> Decision:
    """Schedules exactly these devices; raises `NoAnswer` where that is impossible."""
    frontier = frontiers(problem)
    for device, reason in unable(problem, frontier, scheduled).items():
        raise NoAnswer(f"the set is infeasible: device {device} {reason}")
    needed = frontier.min_share[scheduled].sum()
    if needed > 1:
        count = int(scheduled.sum())
        raise NoAnswer(f"the set is infeasible: its {count} devices need {needed:.1%} of the band at least")
    sets = Sets.from_masks(scheduled[None, :])
    return decide(problem, policy, joint(frontier, sets, energy_weights(problem.queue_j, sets)))


def allocate_without_limits(policy: str, choose: Callable[[int, np.random.Generator], Mask]) -> Policy:
    """The policy that schedules whom `choose` takes, with no radio, no clock and no energy to count."""

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        scheduled = choose(problem.devices, rng)
        nothing = np.zeros(problem.devices)
        objective = -float(problem.value[scheduled].sum())
        return Decision(
            policy, scheduled, nothing, nothing, nothing, nothing, nothing, nothing, nothing, objective
        )

    return schedule
