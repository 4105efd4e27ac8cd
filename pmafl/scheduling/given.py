"""A set that was chosen without looking at the radio: its best allocation, whole or as much of it as fits.

`allocate_given` takes a user's set as it is, or says why there is no answer. `allocate_fitting` serves
policies that choose blindly: whoever cannot take part is dropped, and the round goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pmafl.allocation import Frontier, Sets, count_fitting, energy_weights, frontiers, joint
from pmafl.errors import InputError, NoAnswer
from pmafl.scheduling.decision import Decision, Plain, decide
from pmafl.scheduling.reasons import unable
from pmafl.wireless import Index, Mask, RoundProblem


def allocate_given(problem: RoundProblem, scheduled: Mask, policy: str) -> Decision:
    """Schedules exactly these devices; raises `NoAnswer` where that is impossible."""
    frontier = frontiers(problem)
    if (cannot := scheduled & (frontier.min_share > 1)).any():
        first = np.arange(problem.devices) == cannot.argmax()
        (device, reason), *_ = unable(problem, frontier, first).items()
        raise NoAnswer(f"the set is infeasible: device {device} {reason}")
    needed = frontier.min_share[scheduled].sum()
    if needed > 1:
        count = int(scheduled.sum())
        raise NoAnswer(f"the set is infeasible: its {count} devices need {needed:.1%} of the band at least")
    return _allocate(problem, frontier, scheduled, policy)


def allocate_fitting(
    problem: RoundProblem, wanted: Index | Mask | Sequence[int], policy: str, frontier: Frontier | None = None
) -> Decision:
    """Schedules as many of the wanted devices as fit, the first ones first, and says who was dropped.

    Those who cannot take part even alone are dropped, then the last ones until the others fit the band.
    `wanted` are device numbers, or a mask; the frontiers of all devices need not be computed again where they
    are known.
    """
    wanted = _device_numbers(wanted, problem.devices)
    frontier = frontier or frontiers(problem)
    able = wanted[frontier.min_share[wanted] <= 1]
    fitting = count_fitting(frontier.min_share[able])
    scheduled, dropped = np.zeros((2, problem.devices), bool)
    scheduled[able[:fitting]] = True
    dropped[wanted] = True
    decision = _allocate(problem, frontier, scheduled, policy)
    return replace(decision, dropped=dropped & ~scheduled)


def _device_numbers(wanted: Index | Mask | Sequence[int], devices: int) -> Index:
    numbers = np.asarray(wanted)
    if numbers.dtype == bool and numbers.shape == (devices,):
        return np.flatnonzero(numbers)
    if numbers.size == 0:
        return np.empty(0, np.intp)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise InputError(
            f"allocate_fitting was given {numbers.dtype} of shape {numbers.shape}; "
            f"it must be device numbers, or a mask of {devices}"
        )
    if (wrong := numbers[(numbers < 0) | (numbers >= devices)]).size:
        raise InputError(f"allocate_fitting was given device {wrong[0]}; it must be from 0 to {devices - 1}")
    return numbers.astype(np.intp, copy=False)


def _allocate(problem: RoundProblem, frontier: Frontier, scheduled: Mask, policy: str) -> Decision:
    sets = Sets.from_masks(scheduled[None, :])
    return decide(problem, policy, joint(frontier, sets, energy_weights(problem.queue_j, sets)))


def allocate_without_limits(
    policy: str, choose: Callable[[RoundProblem, np.random.Generator], Index]
) -> Plain:
    """The policy that schedules whom `choose` takes, with no radio, no clock and no energy to count."""

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        scheduled = np.zeros(problem.devices, bool)
        scheduled[choose(problem, rng)] = True
        nothing = np.zeros(problem.devices)
        objective = -float(problem.value[scheduled].sum())
        return Decision(
            policy, scheduled, nothing, nothing, nothing, nothing, nothing, nothing, nothing, objective
        )

    return schedule
