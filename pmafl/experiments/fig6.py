"""Figure 6: accuracy under different deadlines."""

from pmafl.experiments.policies import draw_policies as draw
from pmafl.experiments.policies import policy_curves
from pmafl.experiments.study import Curve, Scale

__all__ = ["DATASETS", "SCHEDULING", "curves", "draw"]

DATASETS = ("mnist", "cifar10")
SCHEDULING = True
DEADLINES_S = {"mnist": (1.5, 2.0, 2.5), "cifar10": (12.0, 14.0, 16.0)}


def curves(scale: Scale) -> list[Curve]:
    return policy_curves(
        scale, "cell.deadline_s", DEADLINES_S[scale.dataset], "{:g} s", matters_to_rs_wel=True
    )
