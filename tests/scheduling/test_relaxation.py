import numpy as np
import pytest

from pmafl.scheduling.relaxation import Case, Prices, Relaxation
from tests.problems import cell_problem


@pytest.fixture(scope="module")
def trace():
    rng = np.random.default_rng(4)
    problem = cell_problem(rng, 6)
    gain = problem.channel_gain * rng.exponential(size=(5, 6))
    return problem, gain, np.full(6, 0.2)


def relaxations(trace):
    turns = np.array([0.0, 1, 2, 2, 3, 4])
    return {
        "any number of turns": Relaxation(*trace),
        "whole turns": Relaxation(*trace, [Case(-1, turns), Case(1, turns + 1)]),
    }


def random_prices(relaxation, rng):
    typical = relaxation.typical_prices()
    return typical.filled(typical.flat() * rng.uniform(0.2, 1.5, typical.flat().size))


@pytest.mark.parametrize("kind", ["any number of turns", "whole turns"])
def test_the_slope_is_that_of_the_value(trace, kind):
    relaxation = relaxations(trace)[kind]
    prices = random_prices(relaxation, np.random.default_rng(1))
    _, slope = relaxation._rounded(prices, 30.0)
    flat = prices.flat()
    for index in range(flat.size):
        step = 1e-5 * flat[index] * np.eye(flat.size)[index]
        high, _ = relaxation._rounded(prices.filled(flat + step), 30.0)
        low, _ = relaxation._rounded(prices.filled(flat - step), 30.0)
        assert (high - low) / (2 * step[index]) == pytest.approx(slope[index], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", ["any number of turns", "whole turns"])
def test_rounding_off_never_lowers_the_bound_and_vanishes(trace, kind):
    relaxation, rng = relaxations(trace)[kind], np.random.default_rng(2)
    for _ in range(20):
        prices = random_prices(relaxation, rng)
        exact = relaxation.bound(prices)
        values = [relaxation._rounded(prices, width)[0] for width in (100.0, 10.0, 1e-3)]
        assert values == sorted(values, reverse=True)
        assert values[-1] == pytest.approx(exact, rel=1e-5)
        assert values[-1] >= exact * (1 - 1e-12)


def test_better_prices_lower_the_bound(trace):
    relaxation = Relaxation(*trace)
    typical = relaxation.typical_prices()
    prices = relaxation.tighten(typical, (0.1, 0.01, 0.001))
    lowest = relaxation.bound(prices)
    rng = np.random.default_rng(3)
    assert all(relaxation.bound(random_prices(relaxation, rng)) >= lowest for _ in range(200))
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert relaxation.bound(prices.filled(prices.flat() * factor)) >= lowest * (1 - 1e-3)


def test_without_an_upload_only_energy_has_a_price(make_problem):
    problem = make_problem(upload_bits=0.0, samples=np.array([600.0, 300.0]))
    relaxation = Relaxation(problem, np.full((4, 2), 1e-8), np.full(2, 0.1))
    prices = relaxation.tighten(relaxation.typical_prices(), (0.1, 0.01, 0.001))
    round_j = relaxation.frontier.compute_j[:2]
    fractions = np.minimum(0.4 / round_j, 4)
    assert relaxation.bound(prices) == pytest.approx(problem.samples @ fractions, rel=1e-3)
    assert isinstance(prices, Prices)
