from dataclasses import replace

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.scheduling import find_policy
from tests.problems import cell_problem


def test_it_computes_at_full_clock_and_charges_it(make_problem):
    decision = find_policy("ocean")(make_problem(queue_j=[0.01, 0.02]), None)
    assert decision.scheduled_devices == [0, 1]
    assert decision.frequency_hz == pytest.approx([1e9, 1e9])
    assert decision.compute_energy_j == pytest.approx([2.0637975, 2.0637975])


def test_a_fixed_split_gives_computing_its_fraction(make_problem):
    decision = find_policy("ocean", compute_fraction=0.6)(make_problem(), None)
    assert decision.compute_time_s == pytest.approx([1.2])
    assert decision.upload_time_s == pytest.approx([0.8])


def test_a_split_below_what_f_max_needs_is_f_max(make_problem):
    decision = find_policy("ocean", compute_fraction=0.1)(make_problem(queue_j=[0.01]), None)
    assert decision.compute_time_s == pytest.approx([0.4127595])


def test_devices_come_in_the_order_of_queue_over_gain(make_problem):
    problem = make_problem(queue_j=[0.1, 0.1, 0.02], channel_gain=[1e-10, 1e-8, 1e-10])
    ratio = problem.queue_j / problem.channel_gain
    decision = find_policy("ocean")(problem, None)
    count = len(decision.scheduled_devices)
    assert count > 0
    assert set(decision.scheduled_devices) == set(np.argsort(ratio)[:count])


def test_it_keeps_all_limits_and_caps():
    rng = np.random.default_rng(0)
    for fraction in (0.0, 0.5, 0.9):
        for _ in range(20):
            problem = cell_problem(rng, 20)
            problem = replace(problem, energy_cap_j=rng.uniform(0, 3, 20))
            decision = find_policy("ocean", compute_fraction=fraction)(problem, rng)
            assert decision.bandwidth_share.sum() <= 1 + 1e-9
            assert np.all(
                decision.upload_energy_j <= problem.max_power_w * decision.upload_time_s * (1 + 1e-9)
            )
            assert np.all(decision.energy_j <= problem.energy_cap_j * (1 + 1e-9))


def test_without_uploads_it_only_computes(make_problem):
    decision = find_policy("ocean")(make_problem(upload_bits=0, queue_j=[0.01]), None)
    assert decision.scheduled_devices == [0]
    assert decision.upload_time_s == decision.upload_energy_j == 0


def test_an_impossible_fraction_is_named():
    with pytest.raises(InputError, match="compute_fraction is 1; it must be from 0"):
        find_policy("ocean", compute_fraction=1)
