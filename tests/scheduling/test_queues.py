import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmafl.scheduling import find_policy, queues
from tests.problems import cell_problem


def test_a_queue_grows_by_what_is_spent_beyond_the_budget_and_never_falls_below_zero():
    state = queues.start(3)
    state = queues.advance(state, np.array([2.0, 0.5, 0.0]), np.array([1.0, 1.0, 1.0]))
    assert state.queue_j == pytest.approx([1.0, 0.0, 0.0])
    state = queues.advance(state, np.array([0.0, 3.0, 1.0]), np.array([1.0, 1.0, 1.0]))
    assert state.queue_j == pytest.approx([0.0, 2.0, 0.0])
    assert state.spent_j == pytest.approx([2.0, 3.5, 1.0])


def test_queues_may_start_above_zero():
    assert queues.start(2, start_j=5.0).queue_j.tolist() == [5.0, 5.0]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.floats(0.01, 5))
def test_the_queue_bounds_how_far_spending_exceeds_the_budget(energies, budget_j):
    """Neely: total energy <= rounds * budget + final queue."""
    state = queues.start(1)
    for energy_j in energies:
        state = queues.advance(state, np.array([energy_j]), np.array([budget_j]))
    assert state.spent_j[0] <= len(energies) * budget_j + state.queue_j[0] + 1e-9


def test_under_a_hard_budget_nobody_ever_spends_more_than_all_of_it():
    rng = np.random.default_rng(0)
    budget_j, rounds = np.full(15, 0.05), 25
    for name in ("dual", "set-expansion", "ocean"):
        state = queues.start(15)
        for _ in range(rounds):
            problem = cell_problem(
                rng, 15, queue_j=state.queue_j, energy_cap_j=queues.remaining_j(state, budget_j, rounds)
            )
            decision = find_policy(name)(problem, rng)
            state = queues.advance(state, decision.energy_j, budget_j)
        assert np.all(state.spent_j <= budget_j * rounds * (1 + 1e-9))
        assert state.spent_j.max() > 0.5
