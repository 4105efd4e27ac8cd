from dataclasses import replace

import numpy as np
import pytest

from pmafl.allocation.frontier import frontiers
from pmafl.errors import InputError
from pmafl.scheduling import allocate_given, find_policy, sets_solved
from pmafl.scheduling.set_expansion import log_energy
from tests.p6_reference import Devices
from tests.problems import cell_problem


def transcription(problem):
    """Algorithm 2 line by line: one device at a time, every set solved from scratch; and how many were."""
    frontier = frontiers(problem)
    able = frontier.min_share <= 1
    free = np.flatnonzero(able & (problem.queue_j == 0))
    if frontier.min_share[free].sum() > 1:
        free = free[np.argsort(-problem.samples[free] / frontier.min_share[free], kind="stable")]
        free = free[np.cumsum(frontier.min_share[free]) <= 1]
    estimate = np.log(np.maximum(problem.queue_j, 1e-300)) + log_energy(frontier, 1 / problem.devices)
    chosen = np.zeros(problem.devices, bool)
    chosen[free] = True
    found, solved = [allocate_given(problem, chosen, "test")], int(free.size > 0)
    for device in sorted(np.flatnonzero(able & (problem.queue_j > 0)), key=lambda d: estimate[d]):
        chosen = chosen.copy()
        chosen[device] = True
        if frontier.min_share[chosen].sum() > 1:
            break
        decision, solved = allocate_given(problem, chosen, "test"), solved + 1
        if problem.queue_j[device] * decision.energy_j[device] > problem.value[device]:
            break
        found.append(decision)
    return min(found, key=lambda decision: decision.objective), solved


def test_it_is_the_papers_algorithm_2():
    rng = np.random.default_rng(0)
    for _ in range(60):
        problem = cell_problem(rng, int(rng.integers(1, 40)))
        decision, (expected, solved) = find_policy("set-expansion")(problem, rng), transcription(problem)
        assert decision.scheduled_devices == expected.scheduled_devices
        assert decision.objective == pytest.approx(expected.objective, rel=1e-9)
        assert sets_solved(problem) == solved <= problem.devices


def test_the_estimate_is_the_energy_of_an_equal_share_where_that_is_possible():
    problem = cell_problem(np.random.default_rng(1), 5, bandwidth_hz=5e7)
    reference = Devices.of([problem])
    possible = reference.min_share() < 0.2
    share = np.full(5, 0.2)
    expected = reference.energy(share, reference.best_time(share))
    assert possible.any()
    assert np.exp(log_energy(frontiers(problem), 0.2))[possible] == pytest.approx(
        expected[possible], rel=1e-7
    )


def test_the_estimate_still_orders_devices_when_shares_are_hopeless(make_problem):
    frontier = frontiers(make_problem(channel_gain=np.logspace(-12, -6, 50)))
    estimate = log_energy(frontier, 1e-6)
    assert np.isfinite(estimate).all()
    assert np.all(np.diff(estimate) < 0)


def test_both_inner_allocators_work():
    rng = np.random.default_rng(2)
    for _ in range(5):
        problem = cell_problem(rng, 12)
        exact = find_policy("set-expansion")(problem, rng)
        paper = find_policy("set-expansion", inner="alternating")(problem, rng)
        assert paper.bandwidth_share.sum() <= 1 + 1e-9
        assert paper.objective >= exact.objective * (1 + 0.5) - 1e-9


def test_an_unknown_inner_allocator_is_named():
    with pytest.raises(InputError, match="inner is 'magic'; it must be one of joint, alternating"):
        find_policy("set-expansion", inner="magic")


def test_the_first_round_fills_the_band_by_samples_per_share(make_problem):
    problem = make_problem(channel_gain=np.logspace(-12, -6, 100), queue_j=0.0)
    decision = find_policy("set-expansion")(problem, None)
    assert 30 < len(decision.scheduled_devices) < 70
    assert decision.scheduled[-len(decision.scheduled_devices) :].all()


def test_energy_caps_are_kept():
    rng = np.random.default_rng(3)
    problem = cell_problem(rng, 30)
    capped = replace(problem, energy_cap_j=rng.uniform(0, 0.5, 30))
    for options in ({}, {"inner": "alternating"}):
        decision = find_policy("set-expansion", **options)(capped, rng)
        assert np.all(decision.energy_j <= capped.energy_cap_j * (1 + 1e-9))


def test_nobody_able_is_an_empty_schedule(make_problem):
    decision = find_policy("set-expansion")(make_problem(channel_gain=[1e-30, 0.0]), None)
    assert decision.scheduled_devices == []
    assert decision.objective == 0


def test_without_uploads_it_takes_who_is_worth_computing(make_problem):
    problem = make_problem(upload_bits=0, queue_j=[0.0, 1.0, 100.0])
    assert find_policy("set-expansion")(problem, None).scheduled_devices == [0, 1]
