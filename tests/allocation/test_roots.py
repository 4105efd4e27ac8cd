import numpy as np
import pytest

from pmafl.allocation.roots import rising_root


def test_roots_of_many_functions_are_found_at_once():
    target = np.array([0.1, 1.0, 50.0, 1e6])
    root = rising_root(
        lambda x: (np.exp(x) - target, np.exp(x)), np.full(4, -50.0), np.full(4, 50.0), np.zeros(4)
    )
    assert root == pytest.approx(np.log(target), abs=1e-12)


def test_the_nearer_end_is_given_where_there_is_no_root_inside():
    low, high = np.array([1.0, -3.0]), np.array([2.0, -2.0])
    root = rising_root(lambda x: (x, np.ones(2)), low, high, np.array([1.5, -2.5]))
    assert root.tolist() == [1.0, -2.0]


def test_a_wild_slope_falls_back_to_bisection():
    root = rising_root(
        lambda x: (np.arctan(x - 0.3), 1e-6 / (1 + x**2)),
        np.array([-1e3]),
        np.array([1e3]),
        np.array([500.0]),
    )
    assert root == pytest.approx([0.3], abs=1e-5)


def test_newton_running_in_circles_is_stopped_and_others_are_left_in_peace():
    """From 1.5, Newton's method on arctan jumps ever farther; from 0.5 it converges at once."""
    root = rising_root(
        lambda x: (np.arctan(x), 1 / (1 + x**2)), np.full(2, -2.0), np.full(2, 3.0), np.array([1.5, 0.5])
    )
    assert root == pytest.approx([0.0, 0.0], abs=1e-12)
