import numpy as np
import pytest

from pmafl.settings import Distribution, load
from pmafl.wireless.fleet import build_fleet, draw, draw_samples


def rng():
    return np.random.default_rng(5)


def test_a_number_is_the_same_for_all_and_a_list_is_taken_as_it_is():
    assert np.array_equal(draw(2.0, 3, rng()), [2, 2, 2])
    assert np.array_equal(draw((1.0, 2.0), 2, rng()), [1, 2])


def test_distributions_fill_their_range():
    uniform = draw(Distribution(distribution="uniform", low=1.0, high=3.0), 50_000, rng())
    assert (uniform.min() >= 1, uniform.max() <= 3, uniform.mean()) == (
        True,
        True,
        pytest.approx(2, abs=0.02),
    )
    log = draw(Distribution(distribution="loguniform", low=1.0, high=100.0), 50_000, rng())
    assert np.median(log) == pytest.approx(10, rel=0.05)
    choice = draw(Distribution(distribution="choice", values=(1.0, 5.0)), 1000, rng())
    assert set(choice) == {1.0, 5.0}


def test_samples_are_whole_and_equal_is_left_to_the_data_set():
    spread = Distribution(distribution="uniform", low=1.0, high=9.0)
    samples = draw_samples(spread, 1000, rng())
    assert samples.dtype == np.int64
    assert (samples.min(), samples.max()) == (1, 9)
    assert draw_samples("equal", 100, rng()) is None


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
