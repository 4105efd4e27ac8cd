from dataclasses import replace

import numpy as np

from pmafl.scheduling import find_policy
from pmafl.wireless.radio import min_share
from tests.problems import cell_problem
from tests.rounding import ROUNDING


def test_it_fills_the_band_in_random_order():
    problem = cell_problem(np.random.default_rng(0), 100, bandwidth_hz=1e7)
    needed = min_share(problem)
    first = find_policy("rs-wel")(problem, np.random.default_rng(1))
    again = find_policy("rs-wel")(problem, np.random.default_rng(1))
    other = find_policy("rs-wel")(problem, np.random.default_rng(2))
    assert first.scheduled_devices == again.scheduled_devices != other.scheduled_devices
    used = needed[first.scheduled].sum()
    assert used <= 1 + ROUNDING
    assert used + needed[needed <= 1].max() > 1 - ROUNDING


def test_it_knows_no_energy_limit():
    problem = cell_problem(np.random.default_rng(3), 20)
    limited = replace(problem, queue_j=np.full(20, 1e9), energy_cap_j=np.zeros(20))
    decision = find_policy("rs-wel")(limited, np.random.default_rng(1))
    assert (
        decision.scheduled_devices
        == find_policy("rs-wel")(problem, np.random.default_rng(1)).scheduled_devices
    )
    assert decision.energy_j[decision.scheduled].min() > 0


def test_devices_that_can_never_take_part_do_not_stop_it(make_problem):
    problem = make_problem(channel_gain=[1e-30, 1e-8, 1e-30, 1e-8])
    assert find_policy("rs-wel")(problem, np.random.default_rng(0)).scheduled_devices == [1, 3]
