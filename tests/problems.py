"""Random round problems for tests: of a real cell, and over many orders of magnitude."""

from dataclasses import replace

import numpy as np

from pmafl.wireless.problem import CELL_FIELDS, RoundProblem
from pmafl.wireless.radio import min_share

DEVICE_FIELDS = [name for name in RoundProblem.__dataclass_fields__ if name not in CELL_FIELDS]


def cell_problem(rng, devices, **changes):
    """A fading cell of 500 m with diverse devices and a contested band."""
    distance_m = np.maximum(np.hypot(*rng.uniform(-250, 250, (2, devices))), 1)
    busy = rng.random(devices) > rng.uniform(0, 0.3)
    problem = RoundProblem(
        bandwidth_hz=10 ** rng.uniform(5.7, 7),
        noise_w_per_hz=10**-20.4,
        deadline_s=rng.uniform(1, 3),
        upload_bits=8_531_968,
        energy_coefficient=5e-27,
        local_iterations=5,
        tradeoff=0.001,
        samples=rng.uniform(100, 1200, devices),
        cycles_per_sample=np.full(devices, 137586.5),
        max_frequency_hz=10 ** rng.uniform(8.8, 9.5, devices),
        max_power_w=10 ** rng.uniform(-1.5, 0.5, devices),
        channel_gain=1e-3 * rng.exponential(size=devices) / distance_m**2,
        queue_j=10 ** rng.uniform(-2, 1) * rng.exponential(size=devices) * busy,
    )
    return replace(problem, **changes)


def wide_problem(rng, devices):
    """Gains and queues over eight orders of magnitude, the rest over one to three."""
    return RoundProblem(
        bandwidth_hz=10 ** rng.uniform(5, 8),
        noise_w_per_hz=10 ** rng.uniform(-21, -20),
        deadline_s=rng.uniform(0.5, 20),
        upload_bits=10 ** rng.uniform(5, 8),
        energy_coefficient=10 ** rng.uniform(-28, -26),
        local_iterations=5,
        tradeoff=10 ** rng.uniform(-4, 0),
        samples=rng.uniform(50, 2000, devices),
        cycles_per_sample=10 ** rng.uniform(3, 6, devices),
        max_frequency_hz=10 ** rng.uniform(8.5, 9.7, devices),
        max_power_w=10 ** rng.uniform(-3, 0, devices),
        channel_gain=10 ** rng.uniform(-13, -5, devices),
        queue_j=10 ** rng.uniform(-6, 2, devices),
    )


def part(problem, devices):
    """The problem with only some of its devices."""
    return replace(problem, **{name: getattr(problem, name)[devices] for name in DEVICE_FIELDS})


def feasible_problems(count, seed, make=wide_problem, most_devices=6):
    """Problems whose devices all fit together."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        problem = make(rng, int(rng.integers(1, most_devices + 1)))
        share = min_share(problem)
        able = np.flatnonzero(share <= 1)
        fitting = able[np.cumsum(share[able]) <= 1]
        if fitting.size:
            found.append(part(problem, fitting))
    return found
