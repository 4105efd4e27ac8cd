import itertools

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.scheduling import find_policy
from tests import p6_reference
from tests.problems import cell_problem, part
from tests.rounding import ROUNDING


def subsets(problem):
    """Every set of devices that fits the band, from the paper's formulas."""
    needed = p6_reference.Devices.of([problem]).min_share()
    fast_enough = problem.work_cycles / problem.max_frequency_hz < problem.deadline_s
    for size in range(1, problem.devices + 1):
        for chosen in map(list, itertools.combinations(range(problem.devices), size)):
            if fast_enough[chosen].all() and needed[chosen].sum() <= 1 and np.all(needed[chosen] < 1):
                yield chosen


def brute_force(problems):
    """The optima of round problems: every subset, each solved by nested searches."""
    owners, sets = [], []
    for number, problem in enumerate(problems):
        for chosen in subsets(problem):
            owners.append(number)
            sets.append(part(problem, np.array(chosen)))
    devices = p6_reference.Devices.of(sets)
    cost = p6_reference.optima(devices, np.full(len(sets), -30.0), np.full(len(sets), 30.0))
    best = np.zeros(len(problems))
    for number, chosen, energy_cost in zip(owners, sets, cost, strict=True):
        best[number] = min(best[number], energy_cost - chosen.tradeoff * chosen.samples.sum())
    return best


def with_queues(problem):
    return part(problem, np.flatnonzero(problem.queue_j > 0))


@pytest.mark.heavy
def test_it_equals_a_brute_force_written_separately():
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 4, 5, 5, 6, 6, 7, 8, 10]
    problems = [with_queues(cell_problem(rng, size)) for size in sizes]
    found = [find_policy("exhaustive")(problem, rng).objective for problem in problems]
    assert found == pytest.approx(brute_force(problems), rel=1e-6, abs=1e-9)


def test_it_is_its_own_bound():
    """But for rounding: the search and the decision add up the same energies in different ways."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        problem = cell_problem(rng, 6)
        decision = find_policy("exhaustive")(problem, None)
        assert 0 <= decision.gap <= ROUNDING * problem.value.sum()


def test_it_refuses_more_than_sixteen_devices():
    with pytest.raises(InputError, match="was given 17 devices; it takes at most 16"):
        find_policy("exhaustive")(cell_problem(np.random.default_rng(2), 17), None)


def test_no_policy_beats_it():
    rng = np.random.default_rng(3)
    for _ in range(30):
        problem = cell_problem(rng, 8)
        best = find_policy("exhaustive")(problem, rng).objective
        for name in ("dual", "set-expansion", "ocean", "rs-wel"):
            assert find_policy(name)(problem, rng).objective >= best - ROUNDING * problem.value.sum()
