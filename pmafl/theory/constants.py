"""The constants of the convergence analysis, and whether they meet its conditions.

Holds Assumptions 1 and 2 of the paper (smoothness, partial gradient diversity), the cross-sensitivity of
Lemma 1 and the step-size conditions of Lemma 2. Gradients are measured elsewhere; this module takes norms.
"""

from dataclasses import dataclass, fields
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from pmafl.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Constants:
    """What the bound needs to know about the losses and the training.

    The smoothness constants hold for every device's loss F_k(u, v_k), with extractor u and predictor v_k.
    """

    lipschitz_u: float
    """L_u: how fast the extractor's gradient changes with the extractor."""
    lipschitz_v: float
    """L_v: how fast the predictor's gradient changes with the predictor; 0 if all parameters are shared."""
    lipschitz_uv: float
    """L_uv: how fast the extractor's gradient changes with the predictor."""
    lipschitz_vu: float
    """L_vu: how fast the predictor's gradient changes with the extractor."""
    delta: float
    """Diversity |grad_u F_k|^2 <= delta^2 + rho^2 |grad_u F|^2: the part that stays where grad_u F is 0."""
    rho: float
    """Diversity in proportion to the global gradient."""
    optimum: float
    """F*: the least global loss over the extractor and all predictors."""
    extractor_rate: float
    predictor_rate: float
    pl_constant: float | None = None
    """mu of |grad_u F|^2 >= 2 mu (F - F*); None takes L_u, the formula as printed; 0 claims nothing."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if not isfinite(value):
                raise InputError(f"{field.name} is {value}; it must be a finite number")
            if value == 0 and field.name in ("lipschitz_u", "extractor_rate", "predictor_rate"):
                raise InputError(f"{field.name} is 0; it must be above 0")
            if value < 0 and field.name != "optimum":
                raise InputError(f"{field.name} is {value}; it must be 0 or more")
        if self.lipschitz_v == 0 and max(self.lipschitz_uv, self.lipschitz_vu) > 0:
            raise InputError("lipschitz_v is 0; it must be above 0 where the two blocks act on each other")

    @property
    def chi(self) -> float:
        r"""Relative cross-sensitivity of the two blocks, :math:`\max(L_{uv}, L_{vu})/\sqrt{L_u L_v}`."""
        cross = max(self.lipschitz_uv, self.lipschitz_vu)
        return cross / sqrt(self.lipschitz_u * self.lipschitz_v) if cross else 0.0

    @property
    def largest_extractor_rate(self) -> float:
        return 1 / ((1 + self.chi) * self.lipschitz_u)

    @property
    def largest_predictor_rate(self) -> float:
        return 2 / ((1 + self.chi) * self.lipschitz_v) if self.lipschitz_v else inf

    @property
    def least_contracting_fraction(self) -> float:
        """Share of all samples that a round must schedule more than for the bound to contract, 1 - 1/(2 rho).

        0 when rho < 1/2: then even an empty round contracts the gap (and adds its part of the floor).
        """
        return max(0.0, 1 - 1 / (2 * self.rho)) if self.rho > 0 else 0.0


@dataclass(frozen=True)
class Condition:
    """One condition of the theorem: `value` against `limit`, and what follows where it fails."""

    name: str
    value: float
    limit: float
    holds: bool
    if_it_fails: str


def conditions(constants: Constants) -> list[Condition]:
    """The conditions under which Lemma 2 and Theorem 1 speak about a run, each with its verdict."""
    rates = [
        ("extractor rate <= 1/((1 + chi) L_u)", constants.extractor_rate, constants.largest_extractor_rate),
        ("predictor rate <= 2/((1 + chi) L_v)", constants.predictor_rate, constants.largest_predictor_rate),
    ][: 2 if constants.lipschitz_v else 1]  # without predictors there is nothing to ask of their rate
    checked = [
        Condition(name, rate, limit, rate <= limit, "one step can raise the loss: the bound proves nothing")
        for name, rate, limit in rates
    ]
    fraction = constants.least_contracting_fraction
    meaning = f"rounds that schedule at most {fraction:.0%} of all samples let the bound grow"
    return [*checked, Condition("rho < 1/2", constants.rho, 0.5, constants.rho < 0.5, meaning)]


def least_delta(device_norms_squared: Array, global_norms_squared: Array, rho: float) -> float:
    r"""The smallest delta with which the diversity assumption holds at every point seen.

    .. math:: \delta^2 = \max_{t,k} \big(\|\nabla_u F_k\|^2 - \rho^2 \|\nabla_u F\|^2\big)^+

    The proofs use the assumption at the iterates (u_t, V_t) alone, so points of a run suffice for that run.

    Parameters: `device_norms_squared` (points, devices), `global_norms_squared` (points,), `rho` >= 0.
    """
    excess = device_norms_squared - rho**2 * global_norms_squared[:, None]
    return sqrt(max(0.0, float(excess.max())))


def largest_pl_constant(global_norms_squared: Array, losses: Array, optimum: float) -> float:
    r"""The largest mu with :math:`\|\nabla_u F\|^2 \ge 2\mu (F - F^*)` at every point seen.

    Points at the optimum ask for nothing. 0 means that the inequality fails for every mu > 0: the extractor
    was stationary while the loss was not least. Infinite when all points are optimal.
    """
    gaps = losses - optimum
    away = gaps > 0
    return float(np.min(global_norms_squared[away] / (2 * gaps[away]), initial=inf))
