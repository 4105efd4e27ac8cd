import numpy as np
import pytest

from pmafl.wireless.cpu import compute_energy, fastest_time, frequency


def test_mnist_device_at_full_clock_takes_0_41_s_and_2_06_j():
    # w = 5 * 600 * 137586.5 = 412 759 500 cycles; at 1 GHz: 0.4127595 s and 5e-27 * w * 1e18 J.
    work = np.array([412_759_500.0])
    assert compute_energy(np.array([0.4127595]), work, 5e-27) == pytest.approx([2.0637975], rel=1e-12)
    assert frequency(np.array([0.4127595]), work) == pytest.approx([1e9], rel=1e-12)


def test_fastest_time_is_work_over_highest_clock(make_problem):
    problem = make_problem(samples=[600, 1200], max_frequency_hz=[1e9, 3e9])
    assert fastest_time(problem) == pytest.approx([0.4127595, 0.275173], rel=1e-12)


def test_twice_the_time_costs_a_quarter():
    work = np.array([3e8])
    slow = compute_energy(np.array([2.0]), work, 5e-27)
    assert slow == pytest.approx(compute_energy(np.array([1.0]), work, 5e-27) / 4, rel=1e-12)


def test_no_work_costs_nothing_even_in_no_time():
    assert compute_energy(np.array([0.0]), np.array([0.0]), 5e-27) == 0
