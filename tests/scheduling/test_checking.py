from dataclasses import replace

import numpy as np
import pytest

from pmafl.errors import InputError, NoAnswer
from pmafl.scheduling import allocate_given, find_policy, find_unlimited_policy
from pmafl.scheduling import ask as ask_policy
from pmafl.scheduling.checking import checked
from pmafl.scheduling.policy import as_policy
from tests.problems import cell_problem, wide_problem


def ask(function, problem, name, round_index=0):
    return ask_policy(as_policy(function, name), replace(problem, round=round_index), {}, None, name)


@pytest.fixture
def problem(make_problem):
    return make_problem(queue_j=[0.3, 0.6, 0.9])


@pytest.fixture
def decision(problem):
    return allocate_given(problem, np.array([True, False, True]), "mine")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scheduled": [0, 2]}, "scheduled is a list; it must be an array of 3 booleans"),
        ({"scheduled": np.array([0, 2])}, "scheduled is an array of int64 with shape"),
        ({"scheduled": np.ones(4, bool)}, r"scheduled is an array of bool with shape \(4,\)"),
        ({"bandwidth_share": None}, "bandwidth_share is a NoneType; it must be an array of 3 numbers"),
        ({"bandwidth_share": np.ones(2)}, r"bandwidth_share is an array of float64 with shape \(2,\)"),
        ({"bandwidth_share": np.array(["a", "", "b"])}, "bandwidth_share is an array of <U1"),
        ({"bandwidth_share": np.array([25.0, 0, 25])}, "bandwidth_share of all devices together is 50; "),
        ({"compute_energy_j": np.array([0.1, 0, -1])}, "compute_energy_j of device 2 is -1; it must be 0 or"),
        (
            {"upload_energy_j": np.array([np.nan, 0, 1])},
            "upload_energy_j of device 0 is nan; it must be 0 or",
        ),
        ({"upload_energy_j": np.array([1, 0, np.inf])}, "upload_energy_j of device 2 is inf"),
        (
            {"upload_energy_j": np.array([1.0, 1, 1])},
            "upload_energy_j of device 1 is 1; it must be 0, for it is",
        ),
        (
            {"upload_time_s": np.array([0.0, 0, 3])},
            r"compute_time_s \+ upload_time_s of device 2 is .*at most 2",
        ),
        (
            {"frequency_hz": np.array([2e9, 0, 1e9])},
            r"frequency_hz of device 0 is 2e\+09; it must be at most",
        ),
        ({"power_w": np.array([1.0, 0, 1.1])}, r"power_w of device 2 is 1.1; it must be at most 1"),
        ({"objective": np.nan}, "objective is nan; it must be a finite number"),
        ({"objective": "low"}, "objective is 'low'"),
        ({"objective": 10**400}, "objective is 1000"),
        ({"gap": -np.inf}, "gap is -inf"),
        ({"lower_bound": [1]}, r"lower_bound is \[1\]"),
        ({"dropped": [1]}, "dropped is a list; it must be an array of 3 booleans"),
        ({"dropped": np.array([True, True, False])}, "device 0 is both scheduled and dropped"),
    ],
)
def test_an_impossible_decision_is_one_line_that_names_policy_and_round(problem, decision, change, said):
    with pytest.raises(InputError, match=rf"^policy 'own:mine' in round 7: {said}") as caught:
        ask(lambda problem, rng: replace(decision, **change), problem, "own:mine", 7)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "kind"), [(None, "NoneType"), (np.ones(3, bool), "ndarray"), ([0, 1], "list")]
)
def test_what_is_no_decision_is_refused_with_what_would_be_right(problem, answer, kind):
    with pytest.raises(InputError, match=f"returned {kind}; it must return a Decision"):
        ask(lambda problem, rng: answer, problem, "own:mine")


def test_a_policy_that_raises_is_named_with_the_place_and_stays_the_cause(problem):
    def broken(problem, rng):
        return np.ones(2) @ np.ones(3)

    with pytest.raises(InputError) as caught:
        ask(broken, problem, "own:broken", 3)
    message = str(caught.value)
    line = broken.__code__.co_firstlineno + 1
    assert message.startswith("policy 'own:broken' in round 3: raised ValueError: matmul: ")
    assert message.endswith(f"(test_checking.py:{line})")
    assert isinstance(caught.value.__cause__, ValueError)


def test_long_messages_of_others_are_one_line(problem):
    def broken(problem, rng):
        raise KeyError("a\nb" * 5000)

    with pytest.raises(InputError) as caught:
        ask(broken, problem, "own:broken")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_problem_without_an_answer_stays_one(problem):
    everybody = np.ones(3, bool)
    narrow = replace(problem, bandwidth_hz=1e4)
    with pytest.raises(NoAnswer, match="policy 'own:all' in round 2: the set is infeasible"):
        ask(lambda problem, rng: allocate_given(problem, everybody, "all"), narrow, "own:all", 2)


def test_numbers_of_other_types_become_plain_ones(problem, decision):
    whole = replace(decision, power_w=np.zeros(3, int), objective=np.float32(-1), gap=np.int64(2))
    found = checked(whole, problem)
    assert found.power_w.dtype == np.float64
    assert (type(found.objective), type(found.gap)) == (float, float)


@pytest.mark.parametrize("make", [cell_problem, wide_problem])
def test_the_policies_of_the_package_always_pass(make):
    rng = np.random.default_rng(5)
    policies = {
        "dual": {}, "ocean": {"compute_fraction": 0.3}, "rs-wel": {}, "uniform": {"count": 4},
        "all": {}, "set-expansion": {"inner": "alternating"}, "exhaustive": {},
    }  # fmt: skip
    for _ in range(10):
        problem = make(rng, 8)
        for name, options in policies.items():
            decision = find_policy(name, **options)(problem, rng)
            again = checked(decision, problem)
            assert np.array_equal(again.bandwidth_share, decision.bandwidth_share)
        checked(find_unlimited_policy("all")(problem, rng), problem)
