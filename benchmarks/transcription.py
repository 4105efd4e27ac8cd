"""What to compare with: the paper's Algorithms 1 and 2 written down plainly, and SciPy on the same P6.

Straight from the printed formulas, vectorised over devices as anybody would, every set solved from scratch.
The power limit, which the paper's closed form for the bandwidth leaves out, is a floor on the share.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import lambertw

from pmafl.wireless.problem import RoundProblem
from pmafl.wireless.radio import min_share

Array = np.ndarray
LN2 = np.log(2)


def paper_bandwidth(problem: RoundProblem, compute_s: Array) -> Array:
    """P5: the closed form with the Lambert W function, bisection on its multiplier."""
    upload_s = problem.deadline_s - compute_s
    unit = problem.upload_bits * LN2 / (problem.bandwidth_hz * upload_s)
    scale = problem.queue_j * problem.noise_w_per_hz * problem.bandwidth_hz * upload_s / problem.channel_gain
    phi = np.minimum(unit * problem.devices, 600)
    low, high = 0.0, float((scale * ((phi - 1) * np.exp(phi) + 1)).max())
    floor = smallest_share(problem, upload_s)
    for _ in range(100):
        multiplier = (low + high) / 2
        share = unit / (lambertw((multiplier / scale - 1) / np.e).real + 1)
        share = np.maximum(share, floor)
        low, high = (multiplier, high) if share.sum() > 1 else (low, multiplier)
    return np.maximum(unit / (lambertw((high / scale - 1) / np.e).real + 1), floor)


def smallest_share(problem: RoundProblem, upload_s: Array) -> Array:
    """The share at which p_max just carries the upload, by bisection."""
    low, high = np.full(problem.devices, 1e-12), np.ones(problem.devices)
    for _ in range(50):
        share = np.sqrt(low * high)
        enough = max_rate(problem, share) * upload_s >= problem.upload_bits
        low, high = np.where(enough, low, share), np.where(enough, share, high)
    return high


def max_rate(problem: RoundProblem, share: Array) -> Array:
    width_hz = share * problem.bandwidth_hz
    signal_w = problem.max_power_w * problem.channel_gain
    return width_hz * np.log1p(signal_w / (width_hz * problem.noise_w_per_hz)) / LN2


def paper_time(problem: RoundProblem, share: Array) -> Array:
    """P4, Lemma 3: bisection on the derivative of the energy."""
    low = problem.work_cycles / problem.max_frequency_hz
    high = np.maximum(problem.deadline_s - problem.upload_bits / max_rate(problem, share), low)
    for _ in range(50):
        compute_s = (low + high) / 2
        width_hz = share * problem.bandwidth_hz
        y = np.minimum(problem.upload_bits * LN2 / (width_hz * (problem.deadline_s - compute_s)), 600)
        radio_w = width_hz * problem.noise_w_per_hz / problem.channel_gain * (1 + np.exp(y) * (y - 1))
        rising = radio_w > 2 * problem.energy_coefficient * problem.work_cycles**3 / compute_s**3
        low, high = np.where(rising, low, compute_s), np.where(rising, compute_s, high)
    return (low + high) / 2


def energy(problem: RoundProblem, share: Array, compute_s: Array) -> Array:
    upload_s = problem.deadline_s - compute_s
    width_hz = share * problem.bandwidth_hz
    growth = np.expm1(np.minimum(problem.upload_bits * LN2 / (width_hz * upload_s), 600))
    compute_j = problem.energy_coefficient * problem.work_cycles**3 / compute_s**2
    return compute_j + width_hz * problem.noise_w_per_hz / problem.channel_gain * growth * upload_s


def algorithm_1(problem: RoundProblem) -> tuple[Array, Array, float]:
    """Shares, computing times and weighted energy for all devices of the problem."""
    compute_s = problem.work_cycles / problem.max_frequency_hz
    cost = np.inf
    while True:
        share = paper_bandwidth(problem, compute_s)
        compute_s = paper_time(problem, share)
        last, cost = cost, float(np.sum(problem.queue_j * energy(problem, share, compute_s)))
        if last - cost <= 1e-9:
            return share, compute_s, cost


def algorithm_2(problem: RoundProblem) -> float:
    """The objective of the paper's schedule: one device more at a time, each set solved from scratch."""
    equal = np.full(problem.devices, 1 / problem.devices)
    estimate = problem.queue_j * energy(problem, equal, paper_time(problem, equal))
    needed = min_share(problem)
    order = np.argsort(estimate)
    best = 0.0
    for count in range(1, problem.devices + 1):
        chosen = order[:count]
        if needed[chosen].sum() > 1:
            break
        part = take(problem, chosen)
        share, compute_s, cost = algorithm_1(part)
        last = energy(part, share, compute_s)[-1]
        if part.queue_j[-1] * last > part.value[-1]:
            break
        best = min(best, cost - float(part.value.sum()))
    return best


def take(problem: RoundProblem, chosen: Array) -> RoundProblem:
    names = [n for n, v in vars(problem).items() if isinstance(v, np.ndarray)]
    return replace(problem, **{name: getattr(problem, name)[chosen] for name in names})


def slsqp(problem: RoundProblem) -> float:
    """P6 in log(share) and log(upload time), from equal shares."""
    count = problem.devices

    def split(v: Array) -> tuple[Array, Array]:
        return np.exp(v[:count]), problem.deadline_s - np.exp(v[count:])

    def power_room(v: Array) -> Array:
        share, compute_s = split(v)
        return np.log(max_rate(problem, share) * (problem.deadline_s - compute_s) / problem.upload_bits)

    def cost(v: Array) -> float:
        return float(np.log(np.sum(problem.queue_j * energy(problem, *split(v)))))

    longest_s = problem.deadline_s - problem.work_cycles / problem.max_frequency_hz
    start = np.log(np.concatenate([np.full(count, 1 / count), longest_s / 2]))
    result = minimize(
        cost,
        start,
        method="SLSQP",
        bounds=[(-30.0, 0.0)] * count + [(-20.0, float(np.log(s))) for s in longest_s],
        constraints=[
            {"type": "ineq", "fun": lambda v: 1 - np.exp(v[:count]).sum()},
            {"type": "ineq", "fun": power_room},
        ],
        options={"maxiter": 500, "ftol": 1e-10},
    )
    return float(np.exp(result.fun))
