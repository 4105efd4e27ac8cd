import numpy as np
import pytest

from pmafl.errors import NoAnswer
from pmafl.scheduling import find_policy, find_unlimited_policy


def test_all_devices_are_scheduled_where_they_fit(make_problem):
    assert find_policy("all")(make_problem(queue_j=np.ones(10)), None).scheduled.all()


def test_there_is_no_answer_where_they_do_not(make_problem):
    with pytest.raises(NoAnswer, match="infeasible"):
        find_policy("all")(make_problem(queue_j=np.ones(100)), None)


def test_without_limits_they_always_fit_and_cost_nothing(make_problem):
    decision = find_unlimited_policy("all")(make_problem(queue_j=np.ones(100)), None)
    assert decision.scheduled.all()
    assert decision.energy_j.sum() == 0
    assert decision.objective == pytest.approx(-60)
