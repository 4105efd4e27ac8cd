import numpy as np

from pmafl.scheduling import allocate_given, find_policy
from pmafl.scheduling.reasons import left_out
from tests.problems import cell_problem


def test_every_device_left_out_has_a_reason():
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem = cell_problem(rng, 30)
        decision = find_policy("dual")(problem, rng)
        assert set(left_out(problem, decision)) == set(np.flatnonzero(~decision.scheduled))


def test_the_reason_fits_the_device(make_problem):
    problem = make_problem(
        samples=[600, 600, 600, 0, 600],
        max_frequency_hz=[1e9, 1e8, 1e9, 1e9, 1e9],
        channel_gain=[1e-8, 1e-8, 1e-18, 1e-8, 1e-8],
        queue_j=[0.3, 0.3, 0.3, 0.3, 30.0],
    )
    reasons = left_out(problem, find_policy("dual")(problem, None))
    assert "deadline" in reasons[1]
    assert "whole band at full power" in reasons[2]
    assert "brings nothing" in reasons[3]
    assert "not worth its energy" in reasons[4]


def test_a_full_band_and_its_price_are_reasons(make_problem):
    problem = make_problem(queue_j=np.full(60, 0.1), channel_gain=np.logspace(-12, -7, 60))
    reasons = left_out(problem, find_policy("dual")(problem, None)).values()
    assert any("does not fit" in reason or "pays at most" in reason for reason in reasons)


def test_a_worthwhile_device_was_simply_not_chosen(make_problem):
    problem = make_problem(queue_j=[0.1, 0.1])
    decision = allocate_given(problem, np.array([True, False]), "mine")
    assert left_out(problem, decision) == {1: "was not chosen by the policy"}


def test_only_as_many_reasons_are_made_as_asked_for():
    problem = cell_problem(np.random.default_rng(0), 60)
    decision = find_policy("dual")(problem, None)
    everyone, few = left_out(problem, decision), left_out(problem, decision, 5)
    assert few == {device: everyone[device] for device in sorted(everyone)[:5]}


def test_a_dropped_device_is_told_so(make_problem):
    problem = make_problem(queue_j=np.full(80, 0.1))
    decision = find_policy("all")(problem, None)
    reasons = left_out(problem, decision)
    assert decision.dropped.any()
    assert set(reasons) == set(decision.dropped_devices)
    assert all("was dropped to make the others fit" in reason for reason in reasons.values())
