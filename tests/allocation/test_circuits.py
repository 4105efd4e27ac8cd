"""Circuits that draw power while a device is awake, receiving, and the time that receiving takes.

The frontier is held against a search over the upload's time for each share, and sets against SciPy's solver;
both use nothing but the formulas of the energies.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from pmafl.allocation import Sets, alternating, energy, frontiers, joint, point, time_division
from pmafl.wireless import min_share, upload_energy
from tests.problems import part, wide_problem


def with_circuits(problem, rng):
    """The same with circuits from far below the transmit power to above it, and some receiving."""
    devices = problem.devices
    return replace(
        problem,
        circuit_power_w=problem.max_power_w * 10 ** rng.uniform(-5, 0.5, devices),
        receive_energy_j=10 ** rng.uniform(-4, -1, devices),
        download_time_s=problem.deadline_s * rng.uniform(0, 0.5, devices),
    )


@pytest.fixture(scope="module")
def problems():
    rng = np.random.default_rng(3)
    found = []
    while len(found) < 12:
        problem = with_circuits(wide_problem(rng, 20), rng)
        if (able := np.flatnonzero(min_share(problem) <= 1)).size:
            found.append(part(problem, able))
    return found


def least_energy(problem, share, steps=300, turns=4):
    """Least energy with given shares, by an ever finer search over the upload's time.

    For each upload time the best compute time is where the CPU's marginal power is the circuits', as far as
    clock and deadline allow.
    """
    time_s, circuit_w = problem.work_time_s, problem.circuit_power_w
    fastest_s = problem.work_cycles / problem.max_frequency_hz
    cheap_s = np.cbrt(2 * problem.energy_coefficient * problem.work_cycles**3 / circuit_w)

    def total(upload_s):
        compute_s = np.clip(cheap_s, fastest_s, np.maximum(time_s - upload_s, fastest_s))
        x = problem.sent_bits / (share * problem.bandwidth_hz * upload_s)
        sent_j = upload_energy(x, problem.channel_gain, problem.sent_bits, problem.noise_w_per_hz)
        late = compute_s + upload_s > time_s * (1 + 1e-12)
        loud = sent_j > problem.max_power_w * upload_s * (1 + 1e-12)
        cpu_j = problem.energy_coefficient * problem.work_cycles**3 / compute_s**2
        return np.where(late | loud, np.inf, cpu_j + sent_j + circuit_w * (compute_s + upload_s))

    low, high = np.log(1e-7 * time_s), np.log(time_s - fastest_s)
    for _ in range(turns):
        grid = low + np.linspace(0, 1, steps)[:, None] * (high - low)
        values = total(np.exp(grid))
        best = values.argmin(axis=0)
        each = np.arange(best.size)
        low, high = grid[np.maximum(best - 1, 0), each], grid[np.minimum(best + 1, steps - 1), each]
    return values.min(axis=0) + problem.receive_energy_j + circuit_w * problem.download_time_s


def along(frontier, steps):
    for way in np.linspace(0, 1, steps):
        yield point(frontier, frontier.log_start + way * (frontier.log_end - frontier.log_start))


def test_the_frontier_is_the_least_energy_that_each_share_allows(problems):
    early = 0
    for problem in problems:
        frontier = frontiers(problem)
        for at in along(frontier, 9):
            inner = at.share > frontier.min_share * 1.001  # at the end itself nothing is left to search
            least = least_energy(problem, at.share)
            assert at.energy_j[inner] == pytest.approx(least[inner], rel=1e-5)
            early += int((at.compute_fraction + at.upload_fraction < 0.999).sum())
            assert (at.compute_fraction + at.upload_fraction < 1 + 1e-9).all()
    assert early > 100, "the test is about devices that sleep before the deadline too"


def test_its_price_is_the_energy_saved_and_rises(problems):
    for problem in problems:
        frontier = frontiers(problem)
        for way in (0.1, 0.5, 0.9):
            log_y = frontier.log_start + way * (frontier.log_end - frontier.log_start)
            here, wide, narrow = (point(frontier, log_y + step) for step in (0, -1e-4, 1e-4))
            saved = (narrow.energy_j - wide.energy_j) / (wide.share - narrow.share)
            resolved = narrow.energy_j - wide.energy_j > 1e-9 * here.energy_j
            assert saved[resolved] == pytest.approx(np.exp(here.log_price)[resolved], rel=1e-2)
        points = list(along(frontier, 40))
        for wide, narrow in pairwise(points):
            assert (narrow.share <= wide.share * (1 + 1e-9)).all()
            assert (narrow.energy_j >= wide.energy_j * (1 - 1e-9)).all()
            assert (narrow.log_price >= wide.log_price - 1e-9).all()


def test_slopes_are_those_of_share_and_price(problems):
    for problem in problems:
        frontier = frontiers(problem)
        for way in (0.2, 0.6, 0.95):
            log_y = frontier.log_start + way * (frontier.log_end - frontier.log_start)
            here, less, more = (point(frontier, log_y + step) for step in (0, -1e-6, 1e-6))
            slope = (np.log(more.share) - np.log(less.share)) / 2e-6
            smooth = np.abs(more.share_slope - less.share_slope) < 1e-3  # no kink in between
            assert slope[smooth] == pytest.approx(here.share_slope[smooth], rel=1e-3)
            slope = (more.log_price - less.log_price) / 2e-6
            smooth &= np.abs(more.price_slope - less.price_slope) < 1e-3
            assert slope[smooth] == pytest.approx(here.price_slope[smooth], rel=1e-3)


def test_sets_get_what_a_general_solver_finds():
    rng, tried = np.random.default_rng(8), 0
    while tried < 5:
        problem = with_circuits(wide_problem(rng, 3), rng)
        needed = min_share(problem)
        if needed.sum() > 0.6:
            continue
        tried += 1
        frontier, weight = frontiers(problem), rng.uniform(0.5, 2, 3)
        allocation = joint(frontier, Sets.from_masks(np.ones((1, 3), bool)), weight)

        def cost(share, problem=problem, weight=weight):
            return float(weight @ least_energy(problem, share, steps=80))

        start = needed * (1 + (1 / needed.sum() - 1) / 2)
        scale = cost(start)
        found = minimize(
            lambda share, cost=cost, scale=scale: cost(share) / scale,
            start,
            method="SLSQP",
            bounds=[(1.0001 * low, 1.0) for low in needed],
            constraints={"type": "ineq", "fun": lambda share: 1 - share.sum()},
            options={"ftol": 1e-9},
        )
        assert allocation.share.sum() <= 1 + 1e-9
        assert allocation.cost[0] <= found.fun * scale * (1 + 1e-6)
        assert allocation.cost[0] == pytest.approx(cost(allocation.share), rel=1e-5)


def test_a_cap_counts_receiving_and_circuits(problems):
    for problem in problems:
        free = frontiers(problem)
        least, most = (point(free, at).energy_j for at in (free.log_start, free.log_end))
        capped = frontiers(replace(problem, energy_cap_j=(least + most) / 2))
        assert (point(capped, capped.log_end).energy_j <= (least + most) / 2 * (1 + 1e-9)).all()
        impossible = frontiers(replace(problem, energy_cap_j=0.99 * problem.standing_energy_j))
        assert np.isinf(impossible.min_share).all()


def test_time_division_for_a_share_is_the_frontiers(problems):
    for problem in problems:
        frontier = frontiers(problem)
        for at in along(frontier, 5):
            compute, upload = time_division(frontier, at.share)
            assert energy(frontier, at.share, compute, upload) == pytest.approx(at.energy_j, rel=1e-6)


def test_alternating_never_beats_the_exact_allocation(problems):
    for problem in problems[:5]:
        frontier = frontiers(problem)
        order = np.argsort(frontier.min_share)
        fitting = order[: max(int((np.cumsum(frontier.min_share[order]) <= 1).sum()), 1)]
        sets = Sets(fitting, np.zeros_like(fitting), 1)
        weight = np.ones(fitting.size)
        exact, turns = joint(frontier, sets, weight), alternating()(frontier, sets, weight)
        assert exact.cost[0] <= turns.cost[0] * (1 + 1e-9)


def test_circuits_that_draw_next_to_nothing_change_next_to_nothing(make_problem):
    problem = make_problem(channel_gain=[1e-9, 1e-8, 1e-7])
    bare, drawing = (frontiers(p) for p in (problem, replace(problem, circuit_power_w=1e-12)))
    middle = (bare.log_start + bare.log_end) / 2
    assert point(drawing, middle).energy_j == pytest.approx(point(bare, middle).energy_j, rel=1e-9)


def test_who_only_receives_until_the_deadline_cannot_take_part(make_problem):
    problem = make_problem(channel_gain=[1e-8, 1e-8, 1e-8], download_time_s=np.array([0.0, 2.0, 5.0]))
    assert np.isinf(frontiers(problem).min_share).tolist() == [False, True, True]
    assert np.isinf(min_share(problem)).tolist() == [False, True, True]


def test_without_an_upload_devices_compute_until_circuits_cost_as_much(make_problem):
    problem = make_problem(upload_bits=0.0, circuit_power_w=np.array([0.0, 0.5, 50.0]))
    allocation = joint(frontiers(problem), Sets.from_masks(np.ones((1, 3), bool)), np.ones(3))
    slow, middle, fast = allocation.compute_fraction
    assert slow == 1.0
    assert slow > middle > fast
    work, kappa = problem.work_cycles[1], problem.energy_coefficient
    grid = np.linspace(work / 1e9, 2.0, 20001)
    assert allocation.energy_j[1] == pytest.approx((kappa * work**3 / grid**2 + 0.5 * grid).min(), rel=1e-6)
    assert fast == pytest.approx(work / 1e9 / 2.0)
