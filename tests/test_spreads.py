import numpy as np
import pytest

from pmafl.settings import Distribution
from pmafl.spreads import draw, draw_samples


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
