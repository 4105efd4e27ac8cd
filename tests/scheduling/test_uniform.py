import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.scheduling import allocate_given, find_policy, find_unlimited_policy
from pmafl.wireless.radio import min_share


def test_it_draws_the_number_asked_for(make_problem):
    problem = make_problem(queue_j=np.full(30, 0.1))
    decision = find_policy("uniform", count=4)(problem, np.random.default_rng(0))
    assert len(decision.scheduled_devices) == 4
    assert decision.bandwidth_share.sum() == pytest.approx(1)


def test_everybody_is_drawn_equally_often(make_problem):
    problem, rng = make_problem(queue_j=np.full(10, 0.1)), np.random.default_rng(1)
    policy = find_unlimited_policy("uniform", count=3)
    drawn = sum(policy(problem, rng).scheduled.astype(int) for _ in range(2000))
    assert np.all(abs(drawn - 600) < 100)


def test_more_devices_than_there_are_is_bad_input(make_problem):
    with pytest.raises(InputError, match="count of policy uniform is 11; it must be from 1 to 10"):
        find_policy("uniform", count=11)(make_problem(queue_j=np.ones(10)), np.random.default_rng(0))


def test_drawn_devices_that_cannot_take_part_are_dropped(make_problem):
    problem = make_problem(channel_gain=[1e-8, 1e-30, 1e-8, 0.0, 1e-8])
    decision = find_policy("uniform", count=5)(problem, np.random.default_rng(0))
    assert decision.scheduled_devices == [0, 2, 4]
    assert decision.dropped_devices == [1, 3]


def test_of_a_draw_that_does_not_fit_the_last_drawn_are_dropped(make_problem):
    problem = make_problem(queue_j=np.ones(80))
    decision = find_policy("uniform", count=80)(problem, np.random.default_rng(0))
    order = np.random.default_rng(0).choice(80, 80, replace=False)
    kept = len(decision.scheduled_devices)
    assert 10 < kept < 80
    assert decision.scheduled_devices == sorted(order[:kept])
    assert decision.dropped_devices == sorted(order[kept:])
    assert min_share(problem)[order[: kept + 1]].sum() > 1
    assert decision.bandwidth_share.sum() == pytest.approx(1)


def test_if_nobody_drawn_can_take_part_the_round_is_empty(make_problem):
    decision = find_policy("uniform", count=2)(
        make_problem(channel_gain=np.zeros(2)), np.random.default_rng(0)
    )
    assert decision.scheduled_devices == []
    assert decision.dropped_devices == [0, 1]


def test_where_all_fit_nobody_is_dropped_and_the_set_is_allocated_as_given(make_problem):
    problem = make_problem(queue_j=np.full(30, 0.1))
    decision = find_policy("uniform", count=4)(problem, np.random.default_rng(0))
    assert decision.dropped_devices == []
    given = allocate_given(problem, decision.scheduled, "given")
    assert np.array_equal(decision.bandwidth_share, given.bandwidth_share)  # the same operations
