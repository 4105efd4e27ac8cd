"""Why a device cannot be scheduled, or was not, in words and as a code that programs can tell apart."""

import numpy as np

from pmafl.allocation import Frontier, frontiers, point
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.market import log_price_limits
from pmafl.wireless import Mask, RoundProblem, fastest_time, min_share

# Every code, with what it says of a device.
CODES = {
    "unavailable": "cannot be reached",
    "deadline": "cannot compute within the deadline at its fastest clock",
    "channel": "cannot upload in time with the whole band at full power",
    "energy-cap": "cannot take part within its energy cap",
    "dropped": "was chosen, but did not fit beside the others",
    "no-value": "brings nothing, for V*D is 0",
    "energy": "is not worth its energy, even with the whole band",
    "band": "does not fit into what the scheduled devices leave of the band",
    "price": "would pay less for band than it is worth to the scheduled devices",
    "policy": "was not chosen by the policy, for reasons of its own",
}


class Reason(str):
    """A sentence about a device without its subject, with its code."""

    code: str

    def __new__(cls, code: str, words: str) -> "Reason":
        reason = super().__new__(cls, words)
        reason.code = code
        return reason


def unable(problem: RoundProblem, frontier: Frontier, asked: Mask) -> dict[int, Reason]:
    """The devices asked about that cannot take part even alone, each with the reason."""
    devices = np.flatnonzero(asked & (frontier.min_share > 1))
    if not devices.size:
        return {}
    needed, time_s, reasons = min_share(problem), fastest_time(problem), {}
    for device in devices:
        if not problem.available[device]:
            reason = Reason("unavailable", "cannot be reached")
        elif time_s[device] >= problem.work_time_s[device]:
            received_s = problem.download_time_s[device]
            first = f"receives for {received_s:.3g} s and " if received_s else ""
            least = f"{first}computes {time_s[device]:.3g} s at least"
            reason = Reason("deadline", f"{least}; the deadline is {problem.deadline_s:g} s")
        elif needed[device] > 1:
            reason = Reason("channel", CODES["channel"])
        else:
            words = f"cannot stay within its energy cap of {problem.energy_cap_j[device]:.3g} J"
            reason = Reason("energy-cap", words)
        reasons[int(device)] = reason
    return reasons


def left_out(problem: RoundProblem, decision: Decision, most: int | None = None) -> dict[int, Reason]:
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
    limits = log_price_limits(problem, devices)
    price = _price(problem, frontier, decision)
    free = 1 - frontier.min_share[decision.scheduled].sum()
    dropped = decision.dropped if decision.dropped is not None else np.zeros_like(asked)
    columns = (dropped, problem.value, frontier.min_share)
    rows = zip(np.exp(limits).tolist(), *(column[devices].tolist() for column in columns), strict=True)
    for device, (limit, was_dropped, value, needed) in zip(devices.tolist(), rows, strict=True):
        if device in reasons:
            continue
        if was_dropped:
            reason = Reason("dropped", f"was dropped to make the others fit: needs {needed:.1%} of the band")
        elif value == 0:
            reason = Reason("no-value", "brings nothing: V*D is 0")
        elif limit == 0:
            words = f"is not worth its energy even with the whole band: V*D is {value:.3g}"
            reason = Reason("energy", words)
        elif needed > free:
            words = f"does not fit: needs {needed:.1%} of the band, {free:.1%} is free"
            reason = Reason("band", words)
        elif limit <= price:
            words = f"pays at most {limit:.3g} for band that is worth {price:.3g} to the others"
            reason = Reason("price", words)
        else:
            reason = Reason("policy", "was not chosen by the policy")
        reasons[device] = reason
    return reasons


def _price(problem: RoundProblem, frontier: Frontier, decision: Decision) -> float:
    """What the scheduled device that needs it most would save per share of band, weighted with its queue.

    Where the band is divided in the best way, that is its price: it is worth the same to everyone, but for
    those who are at a limit, to whom it is worth less.
    """
    paying = np.flatnonzero(decision.scheduled & (problem.queue_j > 0) & (decision.bandwidth_share > 0))
    if frontier.silent or not paying.size:
        return 0.0
    members, share = frontier.take(paying), decision.bandwidth_share[paying]
    y = members.unit_share / (share * decision.upload_time_s[paying] / problem.deadline_s)
    log_y = np.clip(np.log(y), members.log_start, members.log_end)
    return float((problem.queue_j[paying] * np.exp(point(members, log_y).log_price)).max())
