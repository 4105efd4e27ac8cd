import numpy as np
import pytest

from pmafl.errors import InputError, NoAnswer
from pmafl.scheduling import allocate_fitting, allocate_given


def test_exactly_the_given_set_is_scheduled(make_problem):
    decision = allocate_given(make_problem(queue_j=[1, 2, 3]), np.array([True, False, True]), "mine")
    assert decision.policy == "mine"
    assert decision.scheduled_devices == [0, 2]
    assert decision.bandwidth_share[1] == 0


def test_the_empty_set_is_an_answer(make_problem):
    decision = allocate_given(make_problem(), np.array([False]), "mine")
    assert decision.objective == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"max_frequency_hz": [1e9, 1e8]}, r"device 1 computes 4\.13 s at least; the deadline is 2 s"),
        ({"channel_gain": [1e-8, 1e-18]}, "device 1 cannot upload in time with the whole band"),
        ({"energy_cap_j": [1.0, 0.01]}, r"device 1 cannot stay within its energy cap of 0\.01 J"),
        ({"bandwidth_hz": 4e5}, r"its 2 devices need \d+\.\d% of the band at least"),
    ],
)
def test_an_infeasible_set_is_refused_with_the_reason(make_problem, change, reason):
    problem = make_problem(**{"queue_j": [1.0, 1.0], **change})
    with pytest.raises(NoAnswer, match=reason):
        allocate_given(problem, np.array([True, True]), "mine")


@pytest.mark.parametrize("wanted", [[2, 0], range(0, 3, 2), np.array([True, False, True]), np.array([0, 2])])
def test_wanted_devices_may_come_in_any_form(make_problem, wanted):
    decision = allocate_fitting(make_problem(queue_j=[1, 2, 3]), wanted, "mine")
    assert decision.scheduled_devices == [0, 2]


def test_nobody_may_be_wanted(make_problem):
    assert allocate_fitting(make_problem(), [], "mine").scheduled_devices == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            np.array([1e-8, 2e-8, 3e-8]),
            r"given float64 of shape \(3,\); it must be device numbers, or a mask of 3",
        ),
        ([0, -1], "given device -1; it must be from 0 to 2"),
        ([3], "given device 3; it must be from 0 to 2"),
        ([True, False], r"given bool of shape \(2,\); it must be device numbers, or a mask of 3"),
        ([[0, 1]], r"given int64 of shape \(1, 2\); it must be device numbers"),
        (1, r"given int64 of shape \(\); it must be device numbers"),
    ],
)
def test_what_names_no_devices_is_refused(make_problem, wanted, said):
    with pytest.raises(InputError, match=said):
        allocate_fitting(make_problem(queue_j=[1, 2, 3]), wanted, "mine")
