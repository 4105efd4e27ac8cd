"""The convergence bound of partial model aggregation: Lemma 1, Lemma 2 and Theorem 1 of the paper.

A round enters through the number of samples it schedules and nothing else. The formulas are evaluated as
printed; `constants.conditions` says whether they may be believed, docs/theory.md what they hide.
"""

from dataclasses import dataclass

import numpy as np

from pmafl.errors import InputError, NoAnswer
from pmafl.theory.constants import Array, Constants


@dataclass(frozen=True)
class RunBound:
    """Theorem 1 after 0, 1, ..., T rounds; all arrays but `contraction` have T + 1 entries."""

    transient: Array
    """What is left of the starting gap: (F_0 - F*) times the product of A_t."""
    floor: Array
    """What unscheduled samples have added; it does not vanish with more rounds of the same kind."""
    contraction: Array
    """A_t of each round."""
    optimum: float

    @property
    def gap(self) -> Array:
        """Bound on F - F*."""
        return self.transient + self.floor

    @property
    def loss(self) -> Array:
        """Bound on the global loss F."""
        return self.optimum + self.gap


def step_bound(
    constants: Constants,
    gradient_u: Array,
    step_u: Array,
    gradients_v: Array,
    steps_v: Array,
    samples: Array,
) -> float:
    r"""Lemma 1: the most by which any step (of the extractor and all predictors) can change the global loss.

    .. math:: \langle\nabla_u F, \Delta u\rangle + \tfrac{1+\chi}{2} L_u\|\Delta u\|^2 + \tfrac1D\sum_k D_k
        \big(\langle\nabla_v F_k, \Delta v_k\rangle + \tfrac{1+\chi}{2} L_v\|\Delta v_k\|^2\big)

    Parameters: `gradient_u`, `step_u` of shape (n,), `gradients_v`, `steps_v` of shape (devices, m),
    `samples` D_k of shape (devices,).
    """
    half = (1 + constants.chi) / 2
    extractor = gradient_u @ step_u + half * constants.lipschitz_u * (step_u @ step_u)
    predictors = np.sum(gradients_v * steps_v + half * constants.lipschitz_v * steps_v**2, axis=1)
    return float(extractor + samples @ predictors / samples.sum())


def round_bound(
    constants: Constants, scheduled_samples: Array, total_samples: float, gradient_norm_squared: Array
) -> Array:
    r"""Lemma 2: the most by which the global loss can change in a round of one gradient step per device.

    .. math:: \tfrac{\eta_u}{2}\big(4 r^2\rho^2 - 1\big)\|\nabla_u F\|^2 + 2\eta_u r^2\delta^2,
        \qquad r = 1 - \tfrac1D\sum_k\alpha_k D_k

    It holds for every set of devices, the empty one included (the extractor then stays where it is).
    """
    missed = _unscheduled_fraction(scheduled_samples, total_samples) ** 2
    slope = 4 * missed * constants.rho**2 - 1
    rate = constants.extractor_rate
    return rate / 2 * slope * gradient_norm_squared + 2 * rate * missed * constants.delta**2


def contraction(constants: Constants, scheduled_samples: Array, total_samples: float) -> Array:
    r"""The factor on F - F* in each round.

    .. math:: A_t = 1 + \eta_u \mu (4 r_t^2\rho^2 - 1), \qquad \mu = L_u \text{ as printed}

    Rounds in which the bracket is positive always take L_u: there the proof needs |grad_u F|^2 bounded from
    above, which smoothness gives; a Polyak-Lojasiewicz constant bounds it from below.
    """
    missed = _unscheduled_fraction(scheduled_samples, total_samples) ** 2
    slope = 4 * missed * constants.rho**2 - 1
    pl_constant = constants.lipschitz_u if constants.pl_constant is None else constants.pl_constant
    return 1 + constants.extractor_rate * np.where(slope < 0, pl_constant, constants.lipschitz_u) * slope


def run_bound(
    constants: Constants, start_loss: float, scheduled_samples: Array, total_samples: float
) -> RunBound:
    r"""Theorem 1: the most that the global loss can be after each round of a schedule.

    .. math:: F_T - F^* \le (F_0 - F^*)\prod_{t<T} A_t
        + \sum_{t<T} 2\eta_u\delta^2 r_t^2 \prod_{t<j<T} A_j

    Parameters: `start_loss` F_0; `scheduled_samples` of shape (rounds,), each between 0 and `total_samples`.
    Raises NoAnswer where a factor A_t is negative: that takes a rate far above its condition, and a
    negative bound on a gap means nothing.

    >>> limits = Constants(1.0, 1.0, 0.0, 0.0, delta=1.0, rho=0.0, optimum=0.0,
    ...                    extractor_rate=0.5, predictor_rate=0.5)
    >>> run_bound(limits, 8.0, np.array([100.0, 50.0]), 100).loss.round(6).tolist()
    [8.0, 4.0, 2.25]
    """
    start_gap = start_loss - constants.optimum
    if not start_gap >= 0:
        raise InputError(f"start loss is {start_loss}; it must not lie below the optimum {constants.optimum}")
    factors = contraction(constants, scheduled_samples, total_samples)
    if np.any(factors < 0):
        worst = int(np.argmin(factors))
        raise NoAnswer(
            f"Theorem 1 says nothing: A_t = {factors[worst]:.3g} in round {worst}; the extractor rate is "
            f"{constants.extractor_rate:.3g}, the condition allows {constants.largest_extractor_rate:.3g}"
        )
    missed = _unscheduled_fraction(scheduled_samples, total_samples) ** 2
    added = 2 * constants.extractor_rate * constants.delta**2 * missed
    # In logarithms: with rho > 1/2 the product may pass the largest float and come back, even to 0.
    with np.errstate(divide="ignore", over="ignore"):
        log_factors, log_added = np.log(factors), np.log(added)
        parts = [np.array([np.log(start_gap), -np.inf])]
        for log_factor, log_term in zip(log_factors, log_added, strict=True):
            parts.append(np.logaddexp(parts[-1] + log_factor, [-np.inf, log_term]))
        transient, floor = np.exp(np.array(parts)).T
    return RunBound(transient, floor, factors, constants.optimum)


def _unscheduled_fraction(scheduled_samples: Array, total_samples: float) -> Array:
    scheduled = np.asarray(scheduled_samples, dtype=np.float64)
    if not total_samples > 0:
        raise InputError(f"total samples is {total_samples}; it must be above 0")
    wrong = ~((scheduled >= 0) & (scheduled <= total_samples))
    if np.any(wrong):
        raise InputError(
            f"scheduled samples holds {scheduled[wrong].flat[0]:g}; each must lie in 0..{total_samples:g}"
        )
    return 1 - scheduled / total_samples
