"""Figure 5: accuracy under different energy budgets."""

from pmafl.experiments.policies import draw_policies as draw
from pmafl.experiments.policies import policy_curves
from pmafl.experiments.study import Curve, Scale

__all__ = ["DATASETS", "SCHEDULING", "curves", "draw"]

DATASETS = ("mnist", "cifar10")
SCHEDULING = True
BUDGETS_J = {"mnist": (0.06, 0.1, 0.14), "cifar10": (2.0, 3.0, 4.0)}


def curves(scale: Scale) -> list[Curve]:
    return policy_curves(scale, "fleet.budget_j", BUDGETS_J[scale.dataset], "{:g} J", matters_to_rs_wel=False)
