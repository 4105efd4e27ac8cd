from dataclasses import replace
from math import inf

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.theory import Constants, conditions, largest_pl_constant, least_delta

CONSTANTS = Constants(
    lipschitz_u=4.0,
    lipschitz_v=9.0,
    lipschitz_uv=3.0,
    lipschitz_vu=2.0,
    delta=1.0,
    rho=0.25,
    optimum=0.0,
    extractor_rate=0.1,
    predictor_rate=0.1,
)


def test_cross_sensitivity_and_rate_limits_match_hand_values() -> None:
    assert CONSTANTS.chi == pytest.approx(0.5)
    assert CONSTANTS.largest_extractor_rate == pytest.approx(1 / 6)
    assert CONSTANTS.largest_predictor_rate == pytest.approx(2 / 13.5)


def test_every_condition_is_judged_on_its_own() -> None:
    assert [c.holds for c in conditions(CONSTANTS)] == [True, True, True]
    broken = replace(CONSTANTS, extractor_rate=0.2, predictor_rate=0.2, rho=0.5)
    assert [c.holds for c in conditions(broken)] == [False, False, False]


def test_large_rho_asks_for_a_least_share_of_samples_in_every_round() -> None:
    assert replace(CONSTANTS, rho=0.0).least_contracting_fraction == 0
    assert replace(CONSTANTS, rho=0.5).least_contracting_fraction == 0
    assert replace(CONSTANTS, rho=2.0).least_contracting_fraction == pytest.approx(0.75)
    assert "75%" in conditions(replace(CONSTANTS, rho=2.0))[-1].if_it_fails


@pytest.mark.parametrize(
    ("field", "value"), [("lipschitz_u", 0.0), ("delta", -1.0), ("rho", inf), ("pl_constant", -1.0)]
)
def test_impossible_constants_are_named(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"^{field} is"):
        replace(CONSTANTS, **{field: value})


def test_without_predictors_their_rate_is_free() -> None:
    alone = replace(CONSTANTS, lipschitz_v=0.0, lipschitz_uv=0.0, lipschitz_vu=0.0)
    assert alone.chi == 0
    assert [c.name for c in conditions(alone)] == ["extractor rate <= 1/((1 + chi) L_u)", "rho < 1/2"]
    with pytest.raises(InputError, match=r"^lipschitz_v is 0; it must be above 0"):
        replace(CONSTANTS, lipschitz_v=0.0)


def test_least_delta_holds_everywhere_and_touches_somewhere() -> None:
    device_norms_squared = np.array([[1.0, 5.0], [9.0, 2.0]])
    global_norms_squared = np.array([4.0, 8.0])
    assert least_delta(device_norms_squared, global_norms_squared, rho=0.0) == pytest.approx(3)
    assert least_delta(device_norms_squared, global_norms_squared, rho=0.5) == pytest.approx(7**0.5)
    assert least_delta(device_norms_squared, global_norms_squared, rho=10.0) == 0.0


def test_pl_constant_is_set_by_the_flattest_point_away_from_the_optimum() -> None:
    losses = np.array([3.0, 2.0, 1.0])
    assert largest_pl_constant(np.array([8.0, 2.0, 0.0]), losses, optimum=1.0) == pytest.approx(1)
    assert largest_pl_constant(np.array([8.0, 0.0, 0.0]), losses, optimum=1.0) == 0.0
    assert largest_pl_constant(np.array([0.0]), np.array([1.0]), optimum=1.0) == inf
