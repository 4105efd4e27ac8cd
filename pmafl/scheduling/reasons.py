"""Why a device cannot be scheduled, or was not, in words."""

import numpy as np

from pmafl.allocation import Frontier, Sets, frontiers, joint
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.market import log_price_limit
from pmafl.wireless import Mask, RoundProblem, fastest_time, min_share


def unable(problem: RoundProblem, frontier: Frontier, asked: Mask) -> dict[int, str]:
    """The devices asked about that cannot take part even alone, each with the reason."""
    needed = min_share(problem)
    time_s = fastest_time(problem)
    reasons = {}
    for device in np.flatnonzero(asked & (frontier.min_share > 1)):
        if time_s[device] >= problem.work_time_s[device]:
            received_s = problem.download_time_s[device]
            first = f"receives for {received_s:.3g} s and " if received_s else ""
            reason = (
                f"{first}computes {time_s[device]:.3g} s at least; the deadline is {problem.deadline_s:g} s"
            )
        elif needed[device] > 1:
            reason = "cannot upload in time with the whole band at full power"
        else:
            reason = f"cannot stay within its energy cap of {problem.energy_cap_j[device]:.3g} J"
        reasons[int(device)] = reason
    return reasons


def left_out(problem: RoundProblem, decision: Decision, most: int | None = None) -> dict[int, str]:
    """Every device that was not scheduled, or the first `most` of them, with what speaks against it.

    A device that fits is measured by the price of the band: what the scheduled devices would save, in
    units of the objective, per share.
    """
    frontier = frontiers(problem)
    asked = ~decision.scheduled
    if most is not None:
        asked[np.flatnonzero(asked)[most:]] = False
    reasons = unable(problem, frontier, asked)
    devices = np.flatnonzero(asked)
    limits = log_price_limit(frontier.take(devices), problem.queue_j[devices], problem.value[devices])
    limit = dict(zip(map(int, devices), np.exp(limits), strict=True))
    price = _price(problem, frontier, decision.scheduled)
    left = 1 - frontier.min_share[decision.scheduled].sum()
    for device in limit:
        if device in reasons:
            continue
        if decision.dropped is not None and decision.dropped[device]:
            reason = f"was dropped to make the others fit: needs {frontier.min_share[device]:.1%} of the band"
        elif problem.value[device] == 0:
            reason = "brings nothing: V*D is 0"
        elif limit[device] == 0:
            reason = f"is not worth its energy even with the whole band: V*D is {problem.value[device]:.3g}"
        elif frontier.min_share[device] > left:
            reason = f"does not fit: needs {frontier.min_share[device]:.1%} of the band, {left:.1%} is free"
        elif limit[device] <= price:
            reason = f"pays at most {limit[device]:.3g} for band that is worth {price:.3g} to the others"
        else:
            reason = "was not chosen by the policy"
        reasons[device] = reason
    return reasons


def _price(problem: RoundProblem, frontier: Frontier, scheduled: Mask) -> float:
    if frontier.silent or not (problem.queue_j[scheduled] > 0).any():
        return 0.0
    sets = Sets.from_masks(scheduled[None, :])
    return float(np.exp(joint(frontier, sets, problem.queue_j[sets.device]).log_price[0]))
