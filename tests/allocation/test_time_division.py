import numpy as np
import pytest

from pmafl.allocation.frontier import frontiers
from pmafl.allocation.time_division import time_division
from tests.p6_reference import Devices
from tests.problems import feasible_problems


def divide(problem, share):
    compute, upload = time_division(frontiers(problem), np.full(problem.devices, share))
    return compute * problem.deadline_s, upload * problem.deadline_s


def test_in_between_the_marginal_powers_agree(make_problem):
    problem = make_problem(channel_gain=[1e-9])
    compute_s, upload_s = divide(problem, 0.2)
    # -dEL/dTL = 2*kappa*w^3/TL^3 and -dEU/dTU = (theta*B*N0/h)*(1 + 2^x*(x*ln2 - 1))
    x = 8_531_968 / (2e6 * upload_s)
    radio_w = 2e6 * 10**-20.4 / 1e-9 * (1 + 2**x * (x * np.log(2) - 1))
    assert 2 * 5e-27 * 412_759_500**3 / compute_s**3 == pytest.approx(radio_w, rel=1e-9)
    assert compute_s + upload_s == pytest.approx([2.0])


def test_a_slow_clock_leaves_what_it_leaves(make_problem):
    compute_s, _ = divide(make_problem(max_frequency_hz=[2.5e8], channel_gain=[1e-9]), 0.05)
    assert compute_s == pytest.approx([412_759_500 / 2.5e8], rel=1e-12)


def test_a_weak_transmitter_takes_as_long_as_it_takes(make_problem):
    problem = make_problem(max_power_w=[1e-4], channel_gain=[1e-9])
    _, upload_s = divide(problem, 0.5)
    rate = 5e6 * np.log2(1 + 1e-4 * 1e-9 / (5e6 * 10**-20.4))
    assert upload_s == pytest.approx([8_531_968 / rate], rel=1e-9)


def test_the_clock_wins_where_the_limits_exclude_each_other(make_problem):
    compute_s, _ = divide(make_problem(), 1e-6)
    assert compute_s == pytest.approx([0.4127595], rel=1e-12)


def test_no_other_division_costs_less():
    for problem in feasible_problems(200, seed=1, most_devices=3):
        share = 1 / problem.devices
        reference = Devices.of([problem])
        possible = reference.min_share() <= share
        compute_s, upload_s = divide(problem, share)
        best_s = reference.best_time(np.full(problem.devices, share))
        with np.errstate(over="ignore"):
            least = reference.energy(share, best_s)
            energy = reference.energy(share, compute_s)
        assert energy[possible] == pytest.approx(least[possible], rel=1e-7)
        assert np.all(upload_s >= 0)
