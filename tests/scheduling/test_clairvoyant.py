"""The bound against every schedule of small runs, and against runs whose best schedule is obvious."""

from dataclasses import replace

import numpy as np
import pytest

from pmafl.allocation.frontier import frontiers, point
from pmafl.scheduling.clairvoyant import clairvoyant
from pmafl.scheduling.relaxation import Relaxation
from tests.problems import cell_problem
from tests.rounding import ROUNDING

DEVICES = ROUNDS = 4
CONVERGED = 5e-3  # where the search for prices stops: rounding alone moves its bounds by up to 1.3e-3
GRID = 5  # a device spends a whole number of these parts of its budget in a round


def best_schedule(problem, gain, budget_j):
    """The most samples of every schedule whose energies are on the grid.

    `best` holds the most samples by the energy that each device may use so far. A round's decision gives each
    device some of it, 0 to leave it out, and is possible if the shares they then need fit the band.
    """
    best = np.zeros((GRID + 1,) * DEVICES)
    for row in gain:
        caps_j = np.arange(1, GRID + 1)[:, None] / GRID * ROUNDS * budget_j
        shares = [frontiers(replace(problem, channel_gain=row, energy_cap_j=cap)).min_share for cap in caps_j]
        share = np.vstack([np.zeros(DEVICES), shares])
        band = sum(np.expand_dims(share[:, k], [i for i in range(DEVICES) if i != k]) for k in range(DEVICES))
        after = best.copy()
        for decision in np.argwhere(band <= 1):
            samples = problem.samples[decision > 0].sum()
            used = tuple(slice(part, None) for part in decision)
            left = tuple(slice(0, GRID + 1 - part) for part in decision)
            np.maximum(after[used], best[left] + samples, out=after[used])
        best = after
    return best.flat[-1]


def small_run(rng):
    problem = cell_problem(rng, DEVICES, bandwidth_hz=10 ** rng.uniform(5.7, 6.6))
    gain = problem.channel_gain * rng.exponential(size=(ROUNDS, DEVICES))
    return problem, gain, 10 ** rng.uniform(-1.3, 0.2, DEVICES)


@pytest.mark.parametrize("runs", [10, pytest.param(100, marks=pytest.mark.heavy)])
def test_no_schedule_of_small_runs_exceeds_the_bound(runs):
    rng = np.random.default_rng(0)
    reached = []
    for _ in range(runs):
        run = small_run(rng)
        bound, best = clairvoyant(*run), best_schedule(*run)
        assert best <= bound.samples * (1 + ROUNDING)
        assert bound.samples <= bound.fractional_samples
        reached.append(best / bound.samples)
    assert np.mean(reached) > 0.8
    assert np.max(reached) > 0.999


def test_any_prices_give_a_bound():
    rng = np.random.default_rng(1)
    for _ in range(20):
        run = small_run(rng)
        best, relaxation = best_schedule(*run), Relaxation(*run)
        typical = relaxation.typical_prices()
        for _ in range(5):
            factors = 10 ** rng.uniform(-2, 1, typical.flat().size)
            bound = relaxation.bound(typical.filled(typical.flat() * factors))
            assert best <= bound * (1 + ROUNDING)


def test_a_device_alone_takes_part_a_whole_number_of_times(make_problem):
    problem = make_problem(samples=np.array([600.0]))
    gain = np.full((10, 1), 1e-8)
    round_j = 0.15
    for affordable in (0.6, 1.7, 4.5):
        bound = clairvoyant(problem, gain, np.array([affordable * round_j / 10]))
        whole = most_rounds(problem, affordable * round_j)
        assert bound.samples == pytest.approx(600 * whole, rel=2e-3, abs=1)
        assert bound.fractional_samples >= bound.samples


def most_rounds(problem, total_j):
    """With the whole band to itself a round costs the device its least energy."""
    frontier = frontiers(problem)
    least_j = point(frontier, frontier.log_start).energy_j[0]
    return min(int(total_j // least_j), 10)


def test_more_energy_or_band_never_lowers_the_bound():
    problem, gain, budget_j = small_run(np.random.default_rng(5))
    bound = clairvoyant(problem, gain, budget_j).samples
    assert clairvoyant(problem, gain, 2 * budget_j).samples >= bound * (1 - CONVERGED)
    wider = replace(problem, bandwidth_hz=2 * problem.bandwidth_hz)
    assert clairvoyant(wider, gain, budget_j).samples >= bound * (1 - CONVERGED)


def test_rounds_without_a_connection_bring_nothing():
    problem, gain, budget_j = small_run(np.random.default_rng(6))
    alone = clairvoyant(problem, gain, budget_j).samples
    longer = np.vstack([gain, np.zeros((ROUNDS, DEVICES))])
    assert clairvoyant(problem, longer, budget_j / 2).samples == pytest.approx(alone, rel=CONVERGED)
