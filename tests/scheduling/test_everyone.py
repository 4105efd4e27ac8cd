import numpy as np
import pytest

from pmafl.scheduling import find_policy, find_unlimited_policy
from pmafl.wireless.radio import min_share


def test_all_devices_are_scheduled_where_they_fit(make_problem):
    assert find_policy("all")(make_problem(queue_j=np.ones(10)), None).scheduled.all()


def test_where_they_do_not_those_with_the_fewest_samples_per_share_are_dropped(make_problem):
    rng = np.random.default_rng(0)
    problem = make_problem(queue_j=np.ones(100), samples=rng.uniform(10, 700, 100))
    decision = find_policy("all")(problem, None)
    worth = problem.samples / min_share(problem)
    assert 10 < len(decision.scheduled_devices) < 100
    assert np.array_equal(decision.dropped, ~decision.scheduled)
    assert worth[decision.scheduled].min() >= worth[decision.dropped].max()


def test_those_who_cannot_take_part_are_dropped(make_problem):
    decision = find_policy("all")(make_problem(channel_gain=[1e-8, 0.0, 1e-8], samples=[600, 600, 0]), None)
    assert decision.scheduled_devices == [0, 2]
    assert decision.dropped_devices == [1]


def test_without_limits_they_always_fit_and_cost_nothing(make_problem):
    decision = find_unlimited_policy("all")(make_problem(queue_j=np.ones(100)), None)
    assert decision.scheduled.all()
    assert decision.energy_j.sum() == 0
    assert decision.objective == pytest.approx(-60)
