import numpy as np
import pytest

from pmafl.allocation.alternating import alternating
from pmafl.allocation.frontier import frontiers
from pmafl.allocation.joint import joint
from pmafl.allocation.sets import Sets
from tests.problems import feasible_problems
from tests.rounding import ROUNDING


def costs(problem):
    frontier = frontiers(problem)
    sets = Sets.prefixes(np.arange(problem.devices), [problem.devices])
    exact, paper = joint(frontier, sets, problem.queue_j), alternating()(frontier, sets, problem.queue_j)
    assert paper.share.sum() <= 1 + 1e-9
    return exact.cost[0], paper.cost[0]


def test_it_is_never_better_than_joint():
    for problem in feasible_problems(80, seed=7):
        exact, paper = costs(problem)
        assert paper >= exact * (1 - 1e-9)


def test_it_finds_the_optimum_where_no_limit_binds(make_problem):
    problem = make_problem(queue_j=[0.5, 1.0, 2.0], channel_gain=[1e-9, 1e-8, 1e-7], max_power_w=[9, 9, 9])
    exact, paper = costs(problem)
    assert paper == pytest.approx(exact, rel=1e-6)


def test_it_stalls_where_the_power_limit_ties_time_to_share(make_problem):
    """A weak transmitter starts at full clock, with just the share that its power needs for the rest.

    More band alone saves it little, and more time for computing alone would break its power limit, so neither
    step moves it. The paper calls this limit inactive "in practical system design"; here it triples the cost.
    """
    problem = make_problem(channel_gain=[1e-9, 1e-11], max_power_w=[1e-4, 1.0], queue_j=[1.0, 5.0])
    exact, paper = costs(problem)
    assert paper > exact * 2.5


def test_sets_solved_together_are_solved_as_if_alone(make_problem):
    problem = make_problem(channel_gain=np.logspace(-10, -7, 5), queue_j=[1, 0.3, 2, 0.5, 0.9])
    frontier, order = frontiers(problem), np.arange(5)
    together = Sets.prefixes(order, range(1, 6))
    found = alternating()(frontier, together, problem.queue_j[together.device])
    for length in range(1, 6):
        alone = Sets.prefixes(order, [length])
        cost = alternating()(frontier, alone, problem.queue_j[alone.device]).cost
        assert found.cost[length - 1] == pytest.approx(cost[0], rel=ROUNDING)
