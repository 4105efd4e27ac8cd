"""Figure 2: accuracy and loss against the number of shared layers, every device training in every round."""

from matplotlib.figure import Figure

from pmafl.experiments.drawing import ends, panels
from pmafl.experiments.study import ROUNDS_BETWEEN_EVALUATIONS, Curve, Scale, Study

DATASETS = ("mnist", "cifar10")
SCHEDULING = False
LAYERS = {"mnist": 4, "cifar10": 5}


def curves(scale: Scale) -> list[Curve]:
    everyone = {
        "run.wireless": "none",
        "policy.name": "all",
        "run.evaluate_every": ROUNDS_BETWEEN_EVALUATIONS[scale.dataset],
    }
    return [
        Curve("pma", f"n = {n}", {**everyone, "learning.shared_layers": n})
        for n in range(LAYERS[scale.dataset] + 1)
    ]


def draw(study: Study) -> Figure:
    drawing, (left, right) = panels()
    ends(left, study, "accuracy")
    ends(right, study, "loss")
    for axes in (left, right):
        axes.set_xlabel("shared layers n (0: local models, all: one global model)")
    return drawing
