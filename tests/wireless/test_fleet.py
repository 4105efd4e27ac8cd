import numpy as np
import pytest

from pmafl.settings import load
from pmafl.wireless.fleet import build_fleet


def rng():
    return np.random.default_rng(5)


def test_changing_one_quantity_leaves_the_others_alone():
    spread = {"distribution": "uniform", "low": 0.5, "high": 1.0}
    one = load("mnist", {"fleet.max_power_w": spread}).fleet
    other = load(
        "mnist", {"fleet.max_power_w": spread, "fleet.max_frequency_hz": {**spread, "high": 2.0}}
    ).fleet
    samples, gain = np.full(100, 600), np.ones(100)
    a, b = (build_fleet(fleet, samples, 550346, gain, rng()) for fleet in (one, other))
    assert np.array_equal(a.max_power_w, b.max_power_w)
    assert not np.array_equal(a.max_frequency_hz, b.max_frequency_hz)
    assert a.cycles_per_sample[0] == pytest.approx(137586.5)
