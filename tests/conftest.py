"""Round problems for the tests of the physics, the allocators and the policies."""

import numpy as np
import pytest

from pmafl.wireless.problem import RoundProblem

MNIST = {
    "bandwidth_hz": 1e7,
    "noise_w_per_hz": 10**-20.4,
    "deadline_s": 2.0,
    "upload_bits": 8_531_968.0,
    "energy_coefficient": 5e-27,
    "local_iterations": 5,
    "tradeoff": 0.001,
    "samples": 600.0,
    "cycles_per_sample": 137586.5,
    "max_frequency_hz": 1e9,
    "max_power_w": 1.0,
    "channel_gain": 1e-8,
    "queue_j": 0.3,
}
CELL = tuple(MNIST)[:7]


@pytest.fixture(scope="session")
def make_problem():
    """Builds a round problem of the MNIST preset; keyword arguments replace values."""

    def build(**changes):
        values = MNIST | changes
        per_device = [name for name in values if name not in CELL]
        devices = max(np.size(values[name]) for name in per_device)
        for name in per_device:
            if np.ndim(values[name]) == 0:
                values[name] = np.full(devices, values[name])
        return RoundProblem(**values)

    return build
