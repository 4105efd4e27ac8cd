"""Prices of a typical round, held against the relaxation's own rounded bound: it must be at its lowest."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from pmafl.scheduling import fluid
from pmafl.scheduling.relaxation import Prices, Relaxation
from tests.problems import cell_problem, part, wide_problem
from tests.rounding import ROUNDING

LEVELS = -np.log1p(-(np.arange(32) + 0.5) / 32)


def random_case(seed):
    rng = np.random.default_rng(seed)
    devices = int(rng.integers(1, 60))
    problem = (cell_problem, wide_problem)[seed % 2](rng, devices)
    return problem, LEVELS, 10 ** rng.uniform(-3, 1, devices)


def crowd(devices, seed=0):
    """Diverse devices that share a band of 100 kHz for each."""
    rng = np.random.default_rng(seed)
    problem = cell_problem(rng, devices, bandwidth_hz=1e5 * devices, deadline_s=2.0)
    return problem, LEVELS, 10 ** rng.uniform(-1.5, -0.5, devices)


def rounded_bound(case, plan):
    """The relaxation's rounded bound at the plan's prices, and its slopes: of each joule, and of the band."""
    problem, fading, budget_j = case
    relaxation = Relaxation(problem, np.outer(fading, problem.channel_gain), budget_j)
    nothing = np.zeros((1, problem.devices))
    prices = Prices(plan.energy_price[None, :], nothing, np.full(fading.size, plan.band_price))
    value, slope = relaxation._rounded(prices, fluid.WIDTH * problem.samples.mean())
    return value, slope[: problem.devices], slope[2 * problem.devices :].sum()


@pytest.mark.parametrize("seed", range(24))
def test_every_price_is_where_its_budget_is_spent_or_nothing(seed):
    problem, fading, budget_j = case = random_case(seed)
    plan = fluid.plan(*case)
    _, left_j, band_left = rounded_bound(case, plan)
    worth = plan.energy_price * left_j / problem.samples.mean()
    assert np.abs(worth).max() < 0.02
    assert (left_j > -0.05 * fading.size * budget_j).all()
    assert band_left > -0.005 * fading.size
    assert plan.band_price * band_left < 0.02 * problem.samples.sum()


@pytest.mark.parametrize("seed", range(12))
def test_no_other_prices_give_a_lower_value(seed):
    case, rng = random_case(seed), np.random.default_rng(seed)
    plan = fluid.plan(*case)
    value, _, _ = rounded_bound(case, plan)
    for spread in (0.003, 0.03, 0.3):
        for _ in range(5):
            other = fluid.Plan(
                plan.energy_price * np.exp(spread * rng.normal(size=plan.energy_price.size)),
                plan.band_price * np.exp(spread * rng.normal()),
            )
            assert rounded_bound(case, other)[0] >= value * (1 - 1e-5)


def test_samples_of_the_devices_and_blocks_change_nothing(monkeypatch):
    case = crowd(300)
    monkeypatch.setattr(fluid, "SAMPLES", ())
    at_once = fluid.plan(*case)
    monkeypatch.setattr(fluid, "SAMPLES", (30, 120))
    monkeypatch.setattr(fluid, "BLOCK", 64)
    monkeypatch.setattr(fluid, "CELLS", 1500)
    in_parts = fluid.plan(*case)
    assert in_parts.band_price == pytest.approx(at_once.band_price, rel=1e-3)
    unit = at_once.energy_price.mean()
    assert in_parts.energy_price == pytest.approx(at_once.energy_price, rel=5e-3, abs=1e-3 * unit)


@pytest.mark.parametrize("band_hz", [1e6, 3e7])
def test_searching_further_hardly_moves_the_prices(monkeypatch, band_hz):
    problem, fading, budget_j = crowd(300)
    case = (replace(problem, bandwidth_hz=band_hz), fading, budget_j)
    plan = fluid.plan(*case)
    for name in ("PRICE_STEP", "BAND_STEP", "CLOSE"):
        monkeypatch.setattr(fluid, name, 1e-6)
    exact = fluid.plan(*case)
    assert plan.band_price == pytest.approx(exact.band_price, rel=1e-3)
    # Where a budget is hardly scarce its price is small and moves most: by 0.2% of the samples, per joule.
    unit = problem.samples.mean()
    assert plan.energy_price == pytest.approx(exact.energy_price, rel=2e-3, abs=2e-3 * unit)


def test_levels_taken_together_first_change_nothing(monkeypatch):
    case = crowd(60)
    plain = fluid.plan(*case)
    seen, coarse = [], fluid._Fleet.coarse
    monkeypatch.setattr(fluid, "MANY", 1)
    monkeypatch.setattr(fluid._Fleet, "coarse", lambda fleet: seen.append(coarse(fleet)) or seen[-1])
    rough_first = fluid.plan(*case)
    fading = case[1]
    assert seen
    assert seen[0].factor.size < fading.size / 2
    assert seen[0].factor[0] == pytest.approx(fading.max(), rel=ROUNDING)
    assert seen[0].count.sum() == fading.size
    unit = plain.energy_price.mean()
    assert rough_first.energy_price == pytest.approx(plain.energy_price, rel=5e-3, abs=1e-3 * unit)
    assert rough_first.band_price == pytest.approx(plain.band_price, rel=1e-3)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    case = crowd(60)
    monkeypatch.setattr(fluid, "BLOCK", 7)
    plans = []
    for cores in (1, 3):
        monkeypatch.setattr(fluid.os, "cpu_count", lambda cores=cores: cores)
        plans.append(fluid.plan(*case))
    assert np.array_equal(plans[0].energy_price, plans[1].energy_price)
    assert plans[0].band_price == plans[1].band_price


def test_an_error_in_a_thread_comes_out_and_ends_the_others():
    done = []

    def work(task):
        done.append(task)
        if task == 2:
            raise ValueError("task 2")
        return task

    with pytest.raises(ValueError, match="task 2"):
        list(fluid._in_order(work, range(10_000)))
    assert len(done) < 10_000


def test_in_a_narrow_band_the_energy_of_most_devices_has_no_price():
    problem, fading, budget_j = crowd(300)
    case = (replace(problem, bandwidth_hz=1e6), fading, budget_j)
    plan = fluid.plan(*case)
    _, left_j, band_left = rounded_bound(case, plan)
    assert np.median(plan.energy_price) < 1e-3
    assert (plan.energy_price * left_j < 0.01 * problem.samples.mean()).all()
    assert abs(band_left) < 0.01 * fading.size


def test_equal_devices_have_equal_prices_in_any_order():
    problem, fading, budget_j = crowd(40)
    twice = part(problem, np.tile(np.arange(40), 2))
    prices = fluid.plan(twice, fading, np.tile(budget_j, 2)).energy_price
    assert prices[:40] == pytest.approx(prices[40:], rel=1e-9)


def test_equal_levels_are_taken_together_and_give_the_same():
    problem, _, budget_j = crowd(40)
    one, many = (fluid.plan(problem, levels, budget_j) for levels in (np.ones(8), 1 + 1e-9 * np.arange(8)))
    assert many.band_price == pytest.approx(one.band_price, rel=1e-3)
    assert many.energy_price == pytest.approx(one.energy_price, rel=1e-3)


def test_without_an_upload_only_energy_has_a_price():
    problem, fading, budget_j = crowd(40)
    case = (replace(problem, upload_bits=0.0), fading, budget_j)
    plan = fluid.plan(*case)
    _, left_j, _ = rounded_bound(case, plan)
    assert np.abs(plan.energy_price * left_j).max() < 0.02 * problem.samples.mean()
    assert plan.band_price < 1e-3


def test_devices_that_can_never_take_part_have_no_price():
    problem, fading, budget_j = crowd(40)
    gain, cap_j = problem.channel_gain.copy(), budget_j.copy()
    gain[3], gain[4], cap_j[5] = 0.0, 1e-30, 1e-9
    prices = fluid.plan(replace(problem, channel_gain=gain), fading, cap_j).energy_price
    assert np.isfinite(prices).all()
    assert (prices[3:6] < 1e-2).all()
    assert (prices > 0).all()


def test_progress_rises_to_the_end(monkeypatch):
    monkeypatch.setattr(fluid, "BLOCK", 64)
    seen = []
    fluid.plan(*crowd(400), seen.append)
    assert len(seen) > 5
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert seen[-1] == 1


def test_memory_does_not_hold_every_device_at_every_level(monkeypatch):
    monkeypatch.setattr(fluid, "BLOCK", 64)
    monkeypatch.setattr(fluid, "SAMPLES", (32,))
    monkeypatch.setattr(fluid, "MOST_THREADS", 1)  # whether two are at their peaks together is chance
    peaks = []
    for devices in (200, 1000):
        case = crowd(devices)
        tracemalloc.start()
        fluid.plan(*case)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    level_array_bytes = 8 * LEVELS.size * (1000 - 200)
    assert peaks[1] - peaks[0] < 2 * level_array_bytes


def test_at_their_prices_devices_use_what_there_is():
    problem, fading, budget_j = case = crowd(60)
    plan = fluid.plan(*case)
    response = fluid.respond(*case, plan)
    assert response.share.sum() == pytest.approx(1.0, rel=5e-3)
    dear = plan.energy_price * budget_j > 0.02 * problem.samples
    assert response.energy_j[dear] == pytest.approx(budget_j[dear], rel=0.02)
    assert (response.turns <= 1).all()
    assert (response.air <= response.share * (1 + 1e-9)).all()
    value, _, _ = rounded_bound(case, plan)
    priced = plan.energy_price @ budget_j + plan.band_price
    assert response.surplus.sum() + priced == pytest.approx(value / fading.size, rel=1e-3)


def test_a_device_that_stands_for_two_counts_as_two():
    problem, fading, budget_j = crowd(40)
    twice = part(problem, np.repeat(np.arange(40), 2))
    apart = fluid.plan(twice, fading, np.repeat(budget_j, 2))
    together = fluid.plan(problem, fading, budget_j, copies=np.full(40, 2.0))
    assert together.band_price == pytest.approx(apart.band_price, rel=2e-3)
    unit = apart.energy_price.mean()
    assert together.energy_price == pytest.approx(apart.energy_price[::2], rel=5e-3, abs=2e-3 * unit)


def test_what_costs_more_than_the_budgets_of_all_levels_may_be_saved_for():
    problem, fading, budget_j = crowd(40)
    poor_j = budget_j * 1e-3
    never = fluid.respond(problem, fading, poor_j, fluid.plan(problem, fading, poor_j))
    cap_j = budget_j * 100
    saving = fluid.plan(problem, fading, poor_j, cap_j=cap_j)
    seldom = fluid.respond(problem, fading, poor_j, saving, cap_j)
    unable = never.turns == 0
    assert unable.sum() > 20
    assert (seldom.turns[unable] > 1e-6).all()
    assert seldom.energy_j[unable] == pytest.approx(poor_j[unable], rel=0.05)
