import numpy as np
import pytest

from pmafl.errors import InputError, NoAnswer
from pmafl.scheduling import find_policy, find_unlimited_policy


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


def test_a_draw_that_does_not_fit_has_no_answer(make_problem):
    problem = make_problem(queue_j=np.ones(80))
    with pytest.raises(NoAnswer, match=r"its 80 devices need \d+\.\d% of the band"):
        find_policy("uniform", count=80)(problem, np.random.default_rng(0))
