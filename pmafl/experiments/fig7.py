"""Figure 7: accuracy and scheduled samples under different weights V of samples against energy."""

from matplotlib.figure import Figure

from pmafl.experiments.drawing import panels, shared_legend, wireless_bars
from pmafl.experiments.policies import draw_accuracies, draw_policies, policy_curves
from pmafl.experiments.study import Curve, Scale, Study

DATASETS = ("mnist", "cifar10")
SCHEDULING = True
TRADEOFFS = (0.001, 0.01, 0.1)


def curves(scale: Scale) -> list[Curve]:
    return policy_curves(scale, "policy.tradeoff", TRADEOFFS, "V = {:g}", matters_to_rs_wel=False)


def draw(study: Study) -> Figure:
    if not study.shown:
        return draw_policies(study)
    drawing, (left, middle, right) = panels(3)
    draw_accuracies(study, left, middle)
    wireless_bars(right, study, "scheduled_samples_per_round")
    shared_legend(drawing, study, bars=True)
    return drawing
