"""What was measured at points of a run, and the constants of the bound that follow from it.

Measuring needs the model and the data (`replay`); everything here is arithmetic on what it found, so that
other schedules can be asked about without measuring again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any

import numpy as np

from pmafl.errors import NoAnswer
from pmafl.settings import LearningSettings
from pmafl.theory.bound import run_bound
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


def measured_constants(found: Measurement, learning: LearningSettings, scheduled_samples: Array) -> Constants:
    """The constants with which the bound holds at every point measured, the lowest for this schedule.

    Many pairs (delta, rho) satisfy the diversity assumption: a larger rho allows a smaller delta. All are
    true, so the pair is taken that gives the lowest bound at the end.
    """
    optimum = float(found.losses.min())
    pl_constant = largest_pl_constant(found.global_norms_squared, found.losses, optimum)
    u, v, uv, vu = found.smoothness.max(axis=(0, 1)).tolist()
    draft = Constants(
        lipschitz_u=u,
        lipschitz_v=v,
        lipschitz_uv=uv,
        lipschitz_vu=vu,
        delta=0.0,
        rho=0.0,
        optimum=optimum,
        extractor_rate=learning.extractor_rate,
        predictor_rate=learning.predictor_rate,
        pl_constant=min(pl_constant, u),  # smoothness caps it
    )

    start, total = float(found.losses[0]), float(found.samples.sum())

    def final_gap(constants: Constants) -> float:
        try:
            return float(run_bound(constants, start, scheduled_samples, total).gap[-1])
        except NoAnswer:
            return inf

    return min((_with_diversity(draft, found, rho) for rho in _rho_candidates(found)), key=final_gap)


def _rho_candidates(found: Measurement) -> Array:
    """From 0 to the rho that needs no delta."""
    moving = found.global_norms_squared > 0
    ratios = found.device_norms_squared[moving] / found.global_norms_squared[moving, None]
    highest = np.sqrt(ratios.max(initial=0.0))
    return np.append(0.0, highest * np.geomspace(0.01, 1, DIVERSITY_CANDIDATES))


def _with_diversity(draft: Constants, found: Measurement, rho: float) -> Constants:
    delta = least_delta(found.device_norms_squared, found.global_norms_squared, rho)
    return replace(draft, rho=float(rho), delta=delta)


def typical_constants(constants: Constants, found: Measurement) -> Constants:
    """The same with the median instead of the largest smoothness constants: what most steps meet."""
    u, v, uv, vu = np.median(found.smoothness, axis=(0, 1)).tolist()
    return replace(constants, lipschitz_u=u, lipschitz_v=v, lipschitz_uv=uv, lipschitz_vu=vu)


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
        ConstantRow("rho", constants.rho, None, "with delta: the true pair with the lowest bound"),
        ConstantRow("delta", constants.delta, None, f"least true for {devices} devices at {points} points"),
        ConstantRow("mu", pl_constant, None, f"least |grad_u F|^2 / (2 (F - F*)) of {points} points"),
        ConstantRow("F_0", float(found.losses[0]), None, "training loss at the start"),
        ConstantRow("F*", constants.optimum, None, "lowest training loss seen"),
    ]
