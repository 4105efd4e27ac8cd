import json
from dataclasses import replace

import numpy as np
import pytest

from pmafl.settings import load
from pmafl.theory import run_bound
from pmafl.theory.measurement import (
    Measurement,
    constant_rows,
    measured_constants,
    typical_constants,
)

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


def test_smoothness_is_the_largest_and_the_optimum_the_lowest_seen():
    constants = measured_constants(FOUND, LEARNING, np.full(10, 60.0))
    assert (constants.lipschitz_u, constants.lipschitz_v) == (4, 9)
    assert (constants.lipschitz_uv, constants.lipschitz_vu) == (3, 5)
    assert constants.optimum == 0.5
    assert constants.pl_constant == pytest.approx(min(1 / 3, 0.5 / 1))
    typical = typical_constants(constants, FOUND)
    assert (typical.lipschitz_u, typical.lipschitz_v) == (3, 5)


@pytest.mark.parametrize("scheduled", [0.0, 40.0, 60.0, 95.0])
def test_the_diversity_chosen_is_true_everywhere_and_no_true_pair_gives_a_lower_bound(scheduled):
    schedule = np.full(10, scheduled)
    constants = measured_constants(FOUND, LEARNING, schedule)

    def violation(delta, rho):
        allowed = delta**2 + rho**2 * FOUND.global_norms_squared[:, None]
        return np.max(FOUND.device_norms_squared - allowed)

    assert violation(constants.delta, constants.rho) <= 1e-12
    best = run_bound(constants, 2.0, schedule, 100).gap[-1]
    for rho in np.linspace(0, 2, 41):
        for delta in np.linspace(0, 2, 41):
            if violation(delta, rho) <= 0:
                other = run_bound(replace(constants, rho=rho, delta=delta), 2.0, schedule, 100)
                assert best <= other.gap[-1] * 1.01


def test_many_missing_samples_favour_delta():
    """An empty round with rho > 1/2 would let the bound grow; with rho = 0 it only adds to it."""
    few, all_but_few = (measured_constants(FOUND, LEARNING, np.full(10, volume)) for volume in (0.0, 95.0))
    assert few.rho == 0 < all_but_few.rho
    assert few.delta > all_but_few.delta


def test_a_rate_for_which_the_theorem_says_nothing_still_gives_constants():
    fast = LEARNING.model_copy(update={"extractor_rate": 100.0})
    assert measured_constants(FOUND, fast, np.full(10, 100.0)).lipschitz_u == 4


def test_a_run_that_never_moved_caps_the_pl_constant_at_smoothness():
    still = replace(FOUND, losses=np.full(3, 2.0))
    assert measured_constants(still, LEARNING, np.zeros(10)).pl_constant == 4


def test_a_dead_extractor_gives_a_pl_constant_of_zero_and_a_bound_that_stays():
    dead = replace(FOUND, global_norms_squared=np.zeros(3), device_norms_squared=np.zeros((3, 2)))
    constants = measured_constants(dead, LEARNING, np.full(10, 60.0))
    assert (constants.pl_constant, constants.delta) == (0, 0)
    assert run_bound(constants, 2.0, np.full(10, 60.0), 100).loss == pytest.approx(2)


def test_a_measurement_survives_json():
    again = Measurement.from_dict(json.loads(json.dumps(FOUND.to_dict())))
    assert again.to_dict() == FOUND.to_dict()


def test_every_constant_says_how_it_was_measured():
    rows = constant_rows(measured_constants(FOUND, LEARNING, np.full(10, 60.0)), FOUND)
    assert {row.name for row in rows} >= {"L_u", "L_v", "L_uv", "L_vu", "chi", "rho", "delta", "mu", "F*"}
    assert all(row.how for row in rows)
