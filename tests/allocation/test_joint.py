from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from pmafl.allocation.frontier import frontiers
from pmafl.allocation.joint import joint
from pmafl.allocation.sets import Sets, energy_weights
from pmafl.scheduling import allocate_given
from tests import p6_reference
from tests.problems import cell_problem, feasible_problems, part, wide_problem


def everyone(problem):
    return allocate_given(problem, np.ones(problem.devices, bool), "test")


@pytest.fixture(scope="module")
def problems():
    return feasible_problems(1000, seed=0)


@pytest.fixture(scope="module")
def decisions(problems):
    return [everyone(problem) for problem in problems]


def weighted_energy(problem, decision):
    return float(np.sum(problem.queue_j * decision.energy_j))


def transmit_power(problem, decision):
    """The paper's power formula."""
    width_hz = decision.bandwidth_share * problem.bandwidth_hz
    efficiency = problem.upload_bits / (width_hz * decision.upload_time_s)
    return width_hz * problem.noise_w_per_hz / problem.channel_gain * np.expm1(efficiency * np.log(2))


@pytest.mark.heavy
def test_a_thousand_optima_agree_with_an_independent_solver(problems, decisions):
    """Nested searches on the paper's formulas give the optimum from below, by weak duality."""
    costs = np.array([weighted_energy(*pair) for pair in zip(problems, decisions, strict=True)])
    devices = p6_reference.Devices.of(problems)
    optima = p6_reference.optima(devices, np.full(1000, -50.0), np.full(1000, 50.0))
    assert np.all(costs <= optima * (1 + 1e-6))
    assert np.all(costs >= optima * (1 - 1e-6))


def test_every_constraint_holds_to_a_billionth(problems, decisions):
    for problem, decision in zip(problems, decisions, strict=True):
        assert decision.bandwidth_share.sum() <= 1 + 1e-9
        total_s = decision.compute_time_s + decision.upload_time_s
        assert np.all(total_s <= problem.deadline_s * (1 + 1e-9))
        assert np.all(problem.work_cycles / decision.compute_time_s <= problem.max_frequency_hz * (1 + 1e-9))
        assert np.all(transmit_power(problem, decision) <= problem.max_power_w * (1 + 1e-9))
        assert decision.power_w == pytest.approx(transmit_power(problem, decision), rel=1e-6)


def test_the_caps_are_active_in_a_good_part_of_these_problems(problems, decisions):
    at_a_cap = [
        np.any(decision.power_w > problem.max_power_w * (1 - 1e-9))
        or np.any(decision.frequency_hz > problem.max_frequency_hz * (1 - 1e-9))
        for problem, decision in zip(problems, decisions, strict=True)
    ]
    assert 0.3 < np.mean(at_a_cap) < 0.9


def slsqp_cost(problem, rng, starts=3):
    """SciPy's best over several starts, in log(share) and log(upload time), scaled to its own start."""
    count = problem.devices

    def parts(v):
        share, upload_s = np.exp(v[:count]), np.exp(v[count:])
        width_hz = share * problem.bandwidth_hz
        efficiency = np.minimum(problem.upload_bits / (width_hz * upload_s), 900)
        power_w = width_hz * problem.noise_w_per_hz / problem.channel_gain * np.expm1(efficiency * np.log(2))
        compute_s = np.maximum(problem.deadline_s - upload_s, 1e-9)
        compute_j = problem.energy_coefficient * problem.work_cycles**3 / compute_s**2
        return share, compute_s, power_w, compute_j + power_w * upload_s

    def cost(v):
        return np.sum(problem.queue_j * parts(v)[3])

    fastest_s = problem.work_cycles / problem.max_frequency_hz
    best = np.inf
    smallest = p6_reference.Devices.of([problem]).min_share()
    for _ in range(starts):
        share = smallest + (1 - smallest.sum()) * rng.dirichlet(np.ones(count))
        upload_s = problem.deadline_s - fastest_s
        start = np.log(np.concatenate([share, upload_s]))
        scale = cost(start)
        result = minimize(
            lambda v, scale=scale: np.log(cost(v) / scale),
            start,
            method="SLSQP",
            bounds=[(-25, 0)] * count + [(None, np.log(s)) for s in upload_s],
            constraints=[
                {"type": "ineq", "fun": lambda v: 1 - parts(v)[0].sum()},
                {"type": "ineq", "fun": lambda v: np.log(problem.max_power_w / parts(v)[2])},
            ],
            options={"maxiter": 300, "ftol": 1e-12},
        )
        share, _, power_w, _ = parts(result.x)
        if share.sum() <= 1 + 1e-7 and np.all(power_w <= problem.max_power_w * (1 + 1e-7)):
            best = min(best, cost(result.x))
    return best


def test_slsqp_finds_nothing_better():
    rng = np.random.default_rng(1)
    found = 0
    for problem in feasible_problems(40, seed=2, make=cell_problem, most_devices=4):
        if (problem.queue_j == 0).any():
            continue
        cost, other = weighted_energy(problem, everyone(problem)), slsqp_cost(problem, rng)
        assert cost <= other * (1 + 1e-6)
        found += other <= cost * (1 + 1e-5)
    assert found > 10  # SciPy does reach the optimum often enough to be a witness


def test_sets_solved_together_are_solved_as_if_alone():
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = wide_problem(rng, 12)
        frontier = frontiers(problem)
        order = np.flatnonzero(frontier.min_share <= 1)
        order = order[np.cumsum(frontier.min_share[order]) <= 1]
        if not order.size:
            continue
        together = Sets.prefixes(order, range(order.size + 1))
        costs = joint(frontier, together, problem.queue_j[together.device]).cost
        for length in range(order.size + 1):
            alone = Sets.prefixes(order, [length])
            cost = joint(frontier, alone, problem.queue_j[alone.device]).cost
            assert costs[length] == pytest.approx(cost[0], rel=1e-9)


def test_marginal_powers_agree_where_no_limit_binds(problems, decisions):
    """The paper's first remark: -dEL/dTL = -dEU/dTU at an interior optimum."""
    seen = 0
    for problem, decision in zip(problems, decisions, strict=True):
        free = (decision.power_w < problem.max_power_w * 0.999) & (
            decision.frequency_hz < problem.max_frequency_hz * 0.999
        )
        cpu_w = 2 * decision.compute_energy_j / decision.compute_time_s
        assert cpu_w[free] == pytest.approx(marginal_radio_power(problem, decision)[free], rel=1e-5)
        seen += free.sum()
    assert seen > 500


def marginal_radio_power(problem, decision):
    width_hz = decision.bandwidth_share * problem.bandwidth_hz
    y = np.log(2) * problem.upload_bits / (width_hz * decision.upload_time_s)
    marginal = np.where(y < 1e-3, y**2 / 2 + y**3 / 3, 1 + np.exp(y) * (y - 1))
    return width_hz * problem.noise_w_per_hz / problem.channel_gain * marginal


def test_marginal_energies_per_band_agree(problems, decisions):
    """The second remark: q*dE/dtheta is the same for all devices that are free to move."""
    seen = 0
    for problem, decision in zip(problems, decisions, strict=True):
        free = decision.power_w < problem.max_power_w * 0.999
        slope = marginal_radio_power(problem, decision) * decision.upload_time_s / decision.bandwidth_share
        price = (problem.queue_j * slope)[free]
        if price.size > 1:
            assert price == pytest.approx(np.full(price.size, price[0]), rel=1e-5)
            seen += 1
    assert seen > 200


def test_share_falls_with_gain_and_rises_with_queue(make_problem):
    gain = everyone(make_problem(channel_gain=np.logspace(-10, -6, 9)))
    assert np.all(np.diff(gain.bandwidth_share) < 0)
    queue = everyone(make_problem(queue_j=np.logspace(-1, 1, 9)))
    assert np.all(np.diff(queue.bandwidth_share) > 0)


def test_devices_without_a_queue_get_their_minimum_beside_others(make_problem):
    problem = make_problem(queue_j=[0.0, 1.0, 2.0])
    decision = everyone(problem)
    assert decision.frequency_hz[0] == pytest.approx(1e9)
    assert decision.power_w[0] == pytest.approx(1.0)
    assert decision.bandwidth_share[0] == pytest.approx(frontiers(problem).min_share[0])


def test_a_set_without_queues_uses_the_band_to_save_energy(make_problem):
    decision = everyone(make_problem(queue_j=[0.0, 0.0]))
    assert decision.objective == pytest.approx(-1.2)
    assert decision.bandwidth_share.sum() == pytest.approx(1.0)
    assert np.all(decision.energy_j < 0.2)  # 3.65 J at full clock and full power


def test_more_band_never_costs_more():
    rng = np.random.default_rng(4)
    for problem in feasible_problems(30, seed=5):
        more = replace(problem, bandwidth_hz=problem.bandwidth_hz * rng.uniform(1, 3))
        less_energy = weighted_energy(more, everyone(more))
        assert less_energy <= weighted_energy(problem, everyone(problem)) * (1 + 1e-9)


def test_an_energy_cap_is_kept_and_costs_the_others(make_problem):
    problem = make_problem(queue_j=[0.01, 1.0, 1.0], channel_gain=[1e-10, 1e-9, 1e-9])
    free = everyone(problem)
    capped_problem = replace(problem, energy_cap_j=np.array([free.energy_j[0] * 0.9, np.inf, np.inf]))
    capped = everyone(capped_problem)
    assert capped.energy_j[0] == pytest.approx(free.energy_j[0] * 0.9, rel=1e-9)
    assert weighted_energy(problem, capped) > weighted_energy(problem, free)


def test_a_cap_on_energy_is_a_floor_on_the_share():
    """Hard budgets: the optimum for two devices agrees with a search over all divisions of the band."""
    seen = 0
    for problem in feasible_problems(60, seed=6, make=cell_problem, most_devices=2):
        if problem.devices != 2 or (problem.queue_j == 0).any():
            continue
        cap_j = everyone(problem).energy_j[0] * 0.97
        capped = replace(problem, energy_cap_j=np.array([cap_j, np.inf]))
        if frontiers(capped).min_share.sum() > 1:
            continue
        smallest = p6_reference.Devices.of([problem]).min_share()
        shares = np.linspace(smallest[0], 1 - smallest[1], 2001)
        many = p6_reference.Devices.of([part(problem, np.tile([0, 1], shares.size))])
        both = np.stack([shares, 1 - shares], axis=1).ravel()
        energy_j = many.energy(both, many.best_time(both)).reshape(-1, 2)
        best = (energy_j @ problem.queue_j)[energy_j[:, 0] <= cap_j].min()
        cost = weighted_energy(problem, everyone(capped))
        assert best * (1 - 1e-2) <= cost <= best * (1 + 1e-9)
        seen += 1
    assert seen > 5


def test_equal_weights_where_all_queues_are_empty():
    sets = Sets.from_masks(np.array([[True, True, False], [True, False, True]]))
    assert energy_weights(np.array([0.0, 0.0, 2.0]), sets).tolist() == [1.0, 1.0, 0.0, 2.0]


def test_nothing_to_upload_leaves_the_whole_deadline_to_computing(make_problem):
    decision = everyone(make_problem(upload_bits=0, samples=[600, 300]))
    assert decision.compute_time_s == pytest.approx([2.0, 2.0])
    for unused in (
        decision.bandwidth_share,
        decision.upload_time_s,
        decision.power_w,
        decision.upload_energy_j,
    ):
        assert unused.tolist() == [0.0, 0.0]


def test_a_device_without_work_uploads_all_the_time(make_problem):
    decision = everyone(make_problem(samples=[0.0, 600.0]))
    assert decision.upload_time_s[0] == pytest.approx(2.0)
    assert decision.compute_energy_j[0] == 0


def test_a_device_without_work_takes_no_more_than_it_needs(make_problem):
    """Rounding at the end of its frontier, where all of the deadline is upload, must not hold it there."""
    problem = make_problem(
        samples=[0.0, 600.0], queue_j=[1e3, 1e-3], channel_gain=[1.0, 1e-8], upload_bits=1e4
    )
    assert everyone(problem).energy_j[0] < 1e-12


def uneven(problems, seed):
    """The same devices with uploads of different sizes, all smaller: they still fit."""
    rng = np.random.default_rng(seed)
    return [
        replace(problem, upload_bits=problem.upload_bits * 10 ** rng.uniform(-3, 0, problem.devices))
        for problem in problems
    ]


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.heavy)])
def test_uploads_of_different_sizes_agree_with_the_independent_solver(count):
    problems = [p for p in uneven(feasible_problems(count, seed=20), 21) if p.devices > 1]
    decisions = [everyone(problem) for problem in problems]
    costs = np.array([weighted_energy(*pair) for pair in zip(problems, decisions, strict=True)])
    devices = p6_reference.Devices.of(problems)
    bounds = np.full(len(problems), -60.0), np.full(len(problems), 50.0)
    optima = p6_reference.optima(devices, *bounds, steps=32)
    assert len(problems) > count / 3
    assert np.all(costs <= optima * (1 + 1e-6))
    assert np.all(costs >= optima * (1 - 1e-6))
    for problem, decision in zip(problems, decisions, strict=True):
        assert decision.bandwidth_share.sum() <= 1 + 1e-9
        assert np.all(transmit_power(problem, decision) <= problem.max_power_w * (1 + 1e-9))


def test_equal_sizes_one_by_one_give_the_same_bits_as_one_number():
    for problem in feasible_problems(30, seed=22):
        number = float(problem.upload_bits[0])
        one, each = (
            everyone(replace(problem, upload_bits=bits))
            for bits in (number, np.full(problem.devices, number))
        )
        for name in ("bandwidth_share", "compute_time_s", "upload_time_s", "power_w", "upload_energy_j"):
            assert np.array_equal(getattr(one, name), getattr(each, name))


def test_who_uploads_less_spends_less_and_leaves_band_to_the_others(make_problem):
    both = make_problem(samples=[600, 600], upload_bits=[8e6, 8e6], bandwidth_hz=2e6)
    small = everyone(replace(both, upload_bits=np.array([1e6, 8e6])))
    equal = everyone(both)
    assert equal.bandwidth_share[0] == pytest.approx(equal.bandwidth_share[1], rel=1e-6)
    assert small.bandwidth_share[0] < small.bandwidth_share[1]
    assert np.all(small.energy_j < equal.energy_j)


def test_a_device_with_nothing_to_upload_among_others_needs_almost_nothing(make_problem):
    """It sends a single bit, to say that it is done; the others do as well as without it."""
    problem = make_problem(samples=[600, 600, 300], upload_bits=[0, 8e6, 4e6])
    decision = everyone(problem)
    assert decision.scheduled.all()
    assert decision.bandwidth_share[0] < 1e-3
    assert decision.upload_energy_j[0] < 1e-6
    alone = everyone(part(problem, [1, 2]))
    assert decision.energy_j[1:] == pytest.approx(alone.energy_j, rel=1e-3)
    one_bit = everyone(replace(problem, upload_bits=np.array([1, 8e6, 4e6])))
    assert np.array_equal(decision.energy_j, one_bit.energy_j)
