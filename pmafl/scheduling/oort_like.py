r"""Devices that are useful and fast, and some that nobody knows yet: after Oort.

F. Lai, X. Zhu, H. V. Madhyastha, M. Chowdhury, "Oort: efficient federated learning via guided participant
selection", OSDI 2021. A device's utility is

.. math:: D \, \ell \left(\frac{T}{t}\right)^{\alpha [t > T]} + \bar u \sqrt{0.1 \ln R / L}

with its samples D and last loss l, the time t that it would take, T the deadline, and a bonus for those whose
last round L is long before the present one, R, in units of the mean utility u. It is like Oort but not Oort:
the loss is the mean that the device reported, where Oort takes the root mean square over its samples; the
time is that at full clock and power with an equal share of the band; and T is the deadline, which is firm
here, where Oort paces a preferred time.
"""

import numpy as np

from pmafl.errors import InputError
from pmafl.scheduling.choosing import able, allocate, best, check_count
from pmafl.scheduling.decision import Decision, Plain
from pmafl.wireless import Array, Index, RoundProblem, fastest_time

CUTOFF = 0.95  # of the utility of the last that would be taken: who is above has a chance
FADING = 0.98  # of the exploring part, per round
BONUS = 0.1


def oort_like(
    count: int = 10, speed_weight: float = 2.0, exploration: float = 0.9, least_exploration: float = 0.2
) -> Plain:
    """The policy; `count` devices per round.

    `speed_weight` is alpha; 0 gives no heed to speed. A part `exploration` of the devices, which falls by 2%
    per round to `least_exploration`, is of those that never took part, the fastest first; 0 explores only
    where nobody else is left.
    """
    check_count(count)
    if not 0 <= least_exploration <= exploration <= 1:
        raise InputError(
            f"exploration is {exploration} and least_exploration {least_exploration}; they must be from 0 to "
            "1, the second no more than the first"
        )
    if not speed_weight >= 0:
        raise InputError(f"speed_weight is {speed_weight}; it must be 0 or more")

    def schedule(problem: RoundProblem, rng: np.random.Generator) -> Decision:
        devices = able(problem)
        known = devices[~np.isnan(problem.last_loss[devices])]
        new = devices[np.isnan(problem.last_loss[devices])]
        part = max(exploration * FADING**problem.round, least_exploration)
        explored = max(round(part * count), count - known.size)
        explored = min(explored, new.size)
        time_s = needed_time(problem, count)
        exploited = _draw(known, utility(problem, time_s, speed_weight), count - explored, rng)
        wanted = np.concatenate([exploited, best(new, -time_s, explored)])
        return allocate(problem, wanted, "oort-like")

    return schedule


def utility(problem: RoundProblem, time_s: Array, speed_weight: float) -> Array:
    """The utility of each device, NaN where it has reported no loss."""
    slow = np.minimum(problem.deadline_s / time_s, 1.0) ** speed_weight
    plain = problem.samples * problem.last_loss * slow
    known = plain[~np.isnan(plain)]
    mean = known.mean() if known.size else 0.0
    last_round = np.maximum(problem.round - problem.rounds_since, 0) + 1.0
    bonus: Array = mean * np.sqrt(BONUS * np.log(problem.round + 1) / last_round)
    return plain + bonus


def needed_time(problem: RoundProblem, count: int) -> Array:
    """Time of computing and uploading at full clock and power with a share 1/count of the band."""
    band_hz = problem.bandwidth_hz / count
    signal = problem.max_power_w * problem.channel_gain / (problem.noise_w_per_hz * band_hz)
    rate = band_hz * np.log1p(signal) / np.log(2)
    upload_s = np.divide(
        problem.upload_bits, rate, out=np.where(problem.upload_bits > 0, np.inf, 0.0), where=rate > 0
    )
    total: Array = np.maximum(fastest_time(problem) + upload_s, np.finfo(float).tiny)
    return total


def _draw(devices: Index, score: Array, count: int, rng: np.random.Generator) -> Index:
    """So many of the devices, at random in proportion to their scores, of those near the best."""
    if count <= 0 or devices.size <= count:
        return best(devices, score, count if count > 0 else 0)
    cutoff = CUTOFF * score[best(devices, score, count)[-1]]
    near = devices[score[devices] >= cutoff]
    weight = np.maximum(score[near], 1e-12 * score[near].max())
    if not weight.sum() > 0:
        return best(near, score, count)
    return rng.choice(near, count, replace=False, p=weight / weight.sum())
