import json
from dataclasses import replace

import numpy as np
import pytest

from pmafl.errors import NoAnswer
from pmafl.settings import load
from pmafl.theory import run_bound
from pmafl.theory.measurement import (
    Measurement,
    constant_rows,
    lowest_bound,
    measured_constants,
    typical_constants,
)
from tests.rounding import ROUNDING

LEARNING = load("mnist", {"learning.extractor_rate": 0.1, "learning.predictor_rate": 0.1}).learning
FOUND = Measurement(
    rounds=np.array([0.0, 5.0, 10.0]),
    losses=np.array([2.0, 1.0, 0.5]),
    global_norms_squared=np.array([1.0, 0.5, 0.25]),
    device_norms_squared=np.array([[1.5, 1.0], [1.0, 0.2], [0.3, 0.4]]),
    hessian_norms=np.array([[[2.0, 1.0, 0.5, 0.5], [4.0, 1.0, 3.0, 3.0]]] * 3),
    step_norms=np.array([[[2.0, 9.0, 0.5, 0.6], [1.0, 1.0, 0.5, 5.0]]] * 3),
    probed_devices=np.array([0.0, 1.0]),
    samples=np.array([60.0, 40.0]),
    test_loss=np.array(0.6),
)


CONSTANTS = measured_constants(FOUND, LEARNING)


def violation(delta, rho):
    """Of the diversity assumption, at the point and device where it is largest."""
    allowed = delta**2 + rho**2 * FOUND.global_norms_squared[:, None]
    return np.max(FOUND.device_norms_squared - allowed)


def test_smoothness_is_the_largest_and_the_optimum_the_lowest_seen():
    assert (CONSTANTS.lipschitz_u, CONSTANTS.lipschitz_v) == (4, 9)
    assert (CONSTANTS.lipschitz_uv, CONSTANTS.lipschitz_vu) == (3, 5)
    assert CONSTANTS.optimum == 0.5
    assert CONSTANTS.pl_constant == pytest.approx(min(1 / 3, 0.5 / 1))
    typical = typical_constants(CONSTANTS, FOUND)
    assert (typical.lipschitz_u, typical.lipschitz_v) == pytest.approx((3, 5))
    assert typical.delta == pytest.approx(np.sqrt(1.25))


@pytest.mark.parametrize("scheduled", [0.0, 40.0, 60.0, 95.0])
def test_the_diversity_chosen_is_true_everywhere_and_no_true_pair_gives_a_lower_bound(scheduled):
    schedule = np.full(10, scheduled)
    constants, bound = lowest_bound(CONSTANTS, FOUND, schedule)
    assert violation(constants.delta, constants.rho) <= ROUNDING
    for rho in np.linspace(0, 2, 41):
        for delta in np.linspace(0, 2, 41):
            if violation(delta, rho) <= 0:
                other = run_bound(replace(constants, rho=rho, delta=delta), 2.0, schedule, 100)
                assert bound.gap[-1] <= other.gap[-1] * 1.01


def test_many_missing_samples_favour_delta():
    """An empty round with rho > 1/2 would let the bound grow; with rho = 0 it only adds to it."""
    (few, _), (most, _) = (lowest_bound(CONSTANTS, FOUND, np.full(10, volume)) for volume in (0.0, 95.0))
    assert few.rho == 0 < most.rho
    assert few.delta > most.delta


def test_more_samples_give_a_lower_bound_although_each_has_its_own_diversity():
    ends = [lowest_bound(CONSTANTS, FOUND, np.full(10, volume))[1].gap[-1] for volume in range(0, 101, 10)]
    assert np.all(np.diff(ends) < 0)


def test_a_rate_for_which_the_theorem_says_nothing_has_no_answer():
    fast = measured_constants(FOUND, LEARNING.model_copy(update={"extractor_rate": 100.0}))
    with pytest.raises(NoAnswer, match="Theorem 1 says nothing"):
        lowest_bound(fast, FOUND, np.full(10, 100.0))


def test_a_run_that_never_moved_caps_the_pl_constant_at_smoothness():
    still = replace(FOUND, losses=np.full(3, 2.0))
    assert measured_constants(still, LEARNING).pl_constant == pytest.approx(4)


def test_a_dead_extractor_gives_a_pl_constant_of_zero_and_a_bound_that_stays():
    dead = replace(FOUND, global_norms_squared=np.zeros(3), device_norms_squared=np.zeros((3, 2)))
    constants = measured_constants(dead, LEARNING)
    assert (constants.pl_constant, constants.delta) == (0, 0)
    assert lowest_bound(constants, dead, np.full(10, 60.0))[1].loss == pytest.approx(2)


def test_a_measurement_survives_json():
    again = Measurement.from_dict(json.loads(json.dumps(FOUND.to_dict())))
    assert again.to_dict() == FOUND.to_dict()


def test_every_constant_says_how_it_was_measured():
    rows = constant_rows(CONSTANTS, FOUND)
    assert {row.name for row in rows} >= {"L_u", "L_v", "L_uv", "L_vu", "chi", "rho", "delta", "mu", "F*"}
    assert all(row.how for row in rows)
