from dataclasses import replace

import numpy as np
import pytest

from pmafl.settings import load
from pmafl.theory import Constants
from pmafl.theory.measurement import Measurement
from pmafl.theory.promise import PRINTED, SOUND, against_losses, departures, promise

CONSTANTS = Constants(
    lipschitz_u=2.0,
    lipschitz_v=2.0,
    lipschitz_uv=0.0,
    lipschitz_vu=0.0,
    delta=0.0,
    rho=0.0,
    optimum=0.0,
    extractor_rate=0.5,
    predictor_rate=0.5,
    pl_constant=0.5,
)
FOUND = Measurement(
    rounds=np.array([0.0, 1.0, 2.0]),
    losses=np.array([4.0, 2.0, 1.0]),
    global_norms_squared=np.ones(3),
    device_norms_squared=np.ones((3, 1)),
    hessian_norms=np.ones((3, 1, 4)),
    step_norms=np.ones((3, 1, 4)),
    probed_devices=np.zeros(1),
    samples=np.array([100.0]),
    test_loss=np.array(1.0),
)
DIVERSE = replace(FOUND, device_norms_squared=np.full((3, 1), 400.0))


def test_both_forms_stand_side_by_side():
    made = promise("full", CONSTANTS, FOUND, np.full(2, 100.0))
    assert made.losses[SOUND] == pytest.approx([4, 3, 2.25])
    assert made.losses[PRINTED] == pytest.approx([4, 0, 0])
    assert "at most 2.25 after 2 rounds, from 4 at the start" in made.remarks[0]


def test_more_samples_give_a_lower_bound():
    ends = [
        promise("some", CONSTANTS, FOUND, np.full(2, volume)).losses[SOUND][-1] for volume in (0, 30, 60, 100)
    ]
    assert np.all(np.diff(ends) < 0)


def test_a_vacuous_bound_is_called_so_and_by_how_much():
    made = promise("few", CONSTANTS, DIVERSE, np.full(2, 10.0))
    assert made.remarks[0].startswith("with the measured mu: vacuous, it allows a loss of")
    times = made.losses[SOUND][-1] / 4
    assert f"{times:.4g} times the 4 at the start" in made.remarks[0]
    assert any("more than half" in remark for remark in made.remarks)


def test_a_form_without_an_answer_is_left_out_with_its_reason():
    made = promise("full", replace(CONSTANTS, extractor_rate=0.9), FOUND, np.full(2, 100.0))
    assert PRINTED not in made.losses
    assert "as printed: Theorem 1 says nothing" in made.remarks[1]


def test_losses_above_the_bound_are_pointed_out():
    made = promise("full", CONSTANTS, FOUND, np.full(2, 100.0))
    remarks = against_losses(made, FOUND)
    assert len(remarks) == 2
    assert remarks[1].startswith("as printed: violated at 2 of 3 points, first after round 1")


def test_everything_outside_the_theorem_is_listed():
    plain = {"iterations": 1, "upload_bits_per_parameter": 32, "momentum": 0.9}
    learning = load("mnist", {f"learning.{key}": value for key, value in plain.items()}).learning
    assert departures(learning) == []
    assert departures(load("mnist").learning) == ["5 local iterations", "momentum 0.9", "uploads of 16 bits"]
    assert departures(load("mnist", {"learning.algorithm": "fedrep"}).learning)[0] == "the algorithm fedrep"
