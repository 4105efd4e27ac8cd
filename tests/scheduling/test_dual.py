import time
from dataclasses import replace

import numpy as np
import pytest

from pmafl.scheduling import find_policy, queues
from tests.problems import cell_problem, wide_problem
from tests.rounding import ROUNDING


@pytest.mark.parametrize("problems", [100, pytest.param(500, marks=pytest.mark.heavy)])
def test_it_is_near_the_optimum_and_its_bound_below_it(problems):
    """Also reports, for whoever runs with -s, how far set expansion is."""
    rng = np.random.default_rng(1)
    dual, exhaustive, expansion = map(find_policy, ("dual", "exhaustive", "set-expansion"))
    losses, expansion_losses = [], []
    for _ in range(problems):
        problem = cell_problem(rng, 10)
        found, best = dual(problem, rng), exhaustive(problem, rng).objective
        rounding = ROUNDING * problem.value.sum()  # worth and cost may nearly cancel in an objective
        assert found.lower_bound <= best + rounding
        assert found.objective >= best - rounding
        if best < 0:
            losses.append(1 - found.objective / best)
            expansion_losses.append(1 - expansion(problem, rng).objective / best)
    assert np.mean(losses) < 0.005
    assert np.mean(expansion_losses) > np.mean(losses)
    print(f"mean loss: dual {np.mean(losses):.4%}, set expansion {np.mean(expansion_losses):.2%}")


@pytest.mark.parametrize("devices", [1, 3, 30, 300])
def test_decisions_over_many_magnitudes_are_feasible_and_certified(devices):
    rng = np.random.default_rng(2)
    for _ in range(30):
        problem = wide_problem(rng, devices)
        decision = find_policy("dual")(problem, rng)
        assert decision.bandwidth_share.sum() <= 1 + 1e-9
        assert np.all(decision.power_w <= problem.max_power_w)
        assert np.all(decision.frequency_hz <= problem.max_frequency_hz)
        assert decision.lower_bound <= decision.objective <= 0
        assert decision.gap == decision.objective - decision.lower_bound


def run(policy, problem, budget_j, rounds):
    """Decisions of a run with fading channels and growing queues."""
    rng = np.random.default_rng(3)
    state = queues.start(problem.devices)
    mean_gain = problem.channel_gain
    for _ in range(rounds):
        gain = mean_gain * rng.exponential(size=problem.devices)
        decision = policy(replace(problem, channel_gain=gain, queue_j=state.queue_j), rng)
        state = queues.advance(state, decision.energy_j, budget_j)
        yield decision


def preset(make_problem, **changes):
    rng = np.random.default_rng(4)
    distance_m = np.hypot(*rng.uniform(-250, 250, (2, 100)))
    return make_problem(channel_gain=1e-3 / distance_m**2, **changes)


def test_over_a_hundred_rounds_of_mnist_the_gap_is_below_one_percent(make_problem):
    gaps = [decision.relative_gap for decision in run(find_policy("dual"), preset(make_problem), 0.1, 100)]
    assert np.mean(gaps) < 0.01
    assert max(gaps) < 0.05


def test_the_first_round_takes_the_most_samples_per_share(make_problem):
    """All queues are empty: a knapsack, where all have equal data; the strongest channels fill the band."""
    problem = preset(make_problem, queue_j=0.0)
    decision = find_policy("dual")(problem, np.random.default_rng(0))
    weakest = problem.channel_gain[decision.scheduled].min()
    assert np.all(problem.channel_gain[~decision.scheduled] <= weakest)
    assert decision.bandwidth_share.sum() == pytest.approx(1)


def test_identical_devices_are_no_trouble(make_problem):
    problem = make_problem(channel_gain=np.full(100, 1e-9), queue_j=0.3)
    decision = find_policy("dual")(problem, np.random.default_rng(0))
    best = min(
        find_policy("dual")(make_problem(channel_gain=np.full(count, 1e-9), queue_j=0.3), None).objective
        for count in range(1, 60)
    )
    assert decision.objective == pytest.approx(best, rel=1e-9)
    assert decision.relative_gap < 0.05


def test_one_worthwhile_device_is_certified_exactly(make_problem):
    decision = find_policy("dual")(make_problem(), None)
    assert decision.scheduled_devices == [0]
    assert decision.gap == pytest.approx(0, abs=ROUNDING)


def test_nobody_is_taken_when_nobody_is_worth_it(make_problem):
    decision = find_policy("dual")(make_problem(queue_j=[1e9, 1e9]), None)
    assert decision.scheduled_devices == []
    assert decision.objective == decision.lower_bound == decision.gap == 0


def test_without_uploads_every_worthwhile_device_is_taken(make_problem):
    problem = make_problem(upload_bits=0, queue_j=[0.0, 1.0, 100.0])
    decision = find_policy("dual")(problem, None)
    assert decision.scheduled_devices == [0, 1]
    assert decision.gap == pytest.approx(0, abs=ROUNDING)


def test_a_stricter_tolerance_never_does_worse():
    rng = np.random.default_rng(5)
    for _ in range(30):
        problem = cell_problem(rng, 40)
        loose, strict = (find_policy("dual", tolerance=t)(problem, rng) for t in (0.1, 1e-9))
        assert strict.objective <= loose.objective + ROUNDING * problem.value.sum()


def test_energy_caps_are_kept():
    rng = np.random.default_rng(6)
    for _ in range(30):
        problem = cell_problem(rng, 20)
        capped = replace(problem, energy_cap_j=rng.uniform(0, 0.5, 20))
        decision = find_policy("dual")(capped, rng)
        assert np.all(decision.energy_j <= capped.energy_cap_j * (1 + 1e-9))
        best = find_policy("dual", tolerance=1e-9)(problem, rng)
        assert decision.objective >= best.lower_bound - ROUNDING * problem.value.sum()


def test_a_hundred_thousand_devices_take_little_more_than_ten_times_as_long_as_ten_thousand():
    seconds = []
    for devices in (10_000, 100_000):
        problem = cell_problem(np.random.default_rng(7), devices, bandwidth_hz=1e7)
        began = time.process_time()
        decision = find_policy("dual")(problem, None)
        seconds.append(time.process_time() - began)
        assert decision.relative_gap < 0.02
    assert seconds[1] < 50 * seconds[0]  # a square would be 100 times
