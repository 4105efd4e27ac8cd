"""What was measured at points of a run, and the constants of the bound that follow from it.

Measuring needs the model and the data (`replay`); everything here is arithmetic on what it found, so that
other schedules can be asked about without measuring again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pmafl.errors import NoAnswer
from pmafl.settings import LearningSettings
from pmafl.theory.bound import RunBound, run_bound
from pmafl.theory.constants import Array, Constants, largest_pl_constant, least_delta

DIVERSITY_CANDIDATES = 100


@dataclass(frozen=True, eq=False)
class Measurement:
    """Losses, gradients and curvatures at points of a run: at its start, at its end, and evenly between.

    rounds: how many rounds were done at each point; shape (points,).
    losses: the global training loss F there, every device with its own predictor.
    global_norms_squared: |grad_u F|^2; shape (points,).
    device_norms_squared: |grad_u F_k|^2; shape (points, devices).
    hessian_norms, step_norms: smoothness (u, v, uv, vu) of some devices; shape (points, probed devices, 4).
    probed_devices: who they are.
    samples: training samples of every device.
    test_loss: of the state at the end, to hold against what the run recorded.
    """

    rounds: Array
    losses: Array
    global_norms_squared: Array
    device_norms_squared: Array
    hessian_norms: Array
    step_norms: Array
    probed_devices: Array
    samples: Array
    test_loss: Array

    @property
    def smoothness(self) -> Array:
        """The larger of the two measurements."""
        return np.maximum(self.hessian_norms, self.step_norms)

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Measurement":
        return cls(**{name: np.asarray(value, dtype=np.float64) for name, value in values.items()})


@dataclass(frozen=True)
class ConstantRow:
    """One constant as a person wants to see it: the value used, the median where there are many, and how."""

    name: str
    used: float
    median: float | None
    how: str


def measured_constants(found: Measurement, learning: LearningSettings) -> Constants:
    """The constants with which the assumptions hold at every point measured; diversity is all delta."""
    optimum = float(found.losses.min())
    pl_constant = largest_pl_constant(found.global_norms_squared, found.losses, optimum)
    u, v, uv, vu = found.smoothness.max(axis=(0, 1)).tolist()
    return Constants(
        lipschitz_u=u,
        lipschitz_v=v,
        lipschitz_uv=uv,
        lipschitz_vu=vu,
        delta=least_delta(found.device_norms_squared, found.global_norms_squared, rho=0.0),
        rho=0.0,
        optimum=optimum,
        extractor_rate=learning.extractor_rate,
        predictor_rate=learning.predictor_rate,
        pl_constant=min(pl_constant, u),  # smoothness caps it
    )


def lowest_bound(
    constants: Constants, found: Measurement, scheduled_samples: Array
) -> tuple[Constants, RunBound]:
    """The bound for a schedule with the (delta, rho) that makes its end lowest, and the constants with it.

    Many pairs satisfy the diversity assumption at all points measured: the larger rho, the smaller delta.
    The bound is true with each of them, so with the best one.
    """
    start, total = float(found.losses[0]), float(found.samples.sum())
    answers, refusals = [], []
    for rho in _rho_candidates(found):
        delta = least_delta(found.device_norms_squared, found.global_norms_squared, rho)
        trial = replace(constants, rho=float(rho), delta=delta)
        try:
            answers.append((trial, run_bound(trial, start, scheduled_samples, total)))
        except NoAnswer as refusal:
            refusals.append(refusal)
    if not answers:
        raise refusals[0]
    return min(answers, key=lambda answer: float(answer[1].gap[-1]))


def _rho_candidates(found: Measurement) -> Array:
    """From 0 to the rho that needs no delta."""
    moving = found.global_norms_squared > 0
    ratios = found.device_norms_squared[moving] / found.global_norms_squared[moving, None]
    highest = np.sqrt(ratios.max(initial=0.0))
    return np.append(0.0, highest * np.geomspace(0.01, 1, DIVERSITY_CANDIDATES))


def typical_constants(constants: Constants, found: Measurement) -> Constants:
    """The same with medians over devices and points instead of the largest: what most of them would need."""
    u, v, uv, vu = np.median(found.smoothness, axis=(0, 1)).tolist()
    median_norms_squared = np.median(found.device_norms_squared, axis=1, keepdims=True)
    delta = least_delta(median_norms_squared, found.global_norms_squared, constants.rho)
    return replace(constants, lipschitz_u=u, lipschitz_v=v, lipschitz_uv=uv, lipschitz_vu=vu, delta=delta)


def constant_rows(constants: Constants, found: Measurement) -> list[ConstantRow]:
    """The table of constants, each with how it was measured."""
    points, devices = found.device_norms_squared.shape
    typical = typical_constants(constants, found)
    pl_constant = constants.lipschitz_u if constants.pl_constant is None else constants.pl_constant
    hessian, step = (norms.max(axis=(0, 1)) for norms in (found.hessian_norms, found.step_norms))
    smooth = [
        ConstantRow(
            f"L_{part}",
            getattr(constants, f"lipschitz_{part}"),
            getattr(typical, f"lipschitz_{part}"),
            f"largest of {len(found.probed_devices)} devices at {points} points: Hessian norm "
            f"{hessian[index]:.4g}, over a step {step[index]:.4g}",
        )
        for index, part in enumerate(("u", "v", "uv", "vu"))
    ]
    return [
        *smooth,
        ConstantRow("chi", constants.chi, typical.chi, "max(L_uv, L_vu) / sqrt(L_u L_v)"),
        ConstantRow(
            "rho", constants.rho, None, "of all pairs with delta that are true, the one with the lowest bound"
        ),
        ConstantRow(
            "delta", constants.delta, typical.delta, f"least true for {devices} devices at {points} points"
        ),
        ConstantRow("mu", pl_constant, None, f"least |grad_u F|^2 / (2 (F - F*)) of {points} points"),
        ConstantRow("F_0", float(found.losses[0]), None, "training loss at the start"),
        ConstantRow("F*", constants.optimum, None, "lowest training loss seen"),
    ]
