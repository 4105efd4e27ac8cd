"""The paper's convergence analysis as numbers: what its bound says about a schedule, and when it holds."""

from pmafl.theory.bound import RunBound, contraction, round_bound, run_bound, step_bound
from pmafl.theory.constants import Condition, Constants, conditions, largest_pl_constant, least_delta

__all__ = [
    "Condition",
    "Constants",
    "RunBound",
    "conditions",
    "contraction",
    "largest_pl_constant",
    "least_delta",
    "round_bound",
    "run_bound",
    "step_bound",
]
