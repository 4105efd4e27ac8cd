"""The scheduling policies of Figures 5 to 7, for each value of one setting."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pmafl.experiments.drawing import lines, panels, same_limits, shared_legend
from pmafl.experiments.study import Curve, Scale, Study

ROUNDS_BETWEEN_EVALUATIONS = {"mnist": 2, "cifar10": 5}
OCEAN_SPLIT = "ocean, best fixed split"


def policy_curves(
    scale: Scale, key: str, values: Sequence[float], pattern: str, matters_to_rs_wel: bool
) -> list[Curve]:
    """The paper's three policies and three of ours, each for all values of a setting.

    RS-WEL knows neither budgets nor V: where the setting is one of those, its run is the same for all values.
    """
    found, often = [], {"run.evaluate_every": ROUNDS_BETWEEN_EVALUATIONS[scale.dataset]}
    for value in values:
        shown = pattern.format(value)
        settings = {key: value, **often}
        alone = settings if matters_to_rs_wel else often
        found += [
            Curve("set-expansion", shown, {**settings, "policy.name": "set-expansion"}),
            Curve("ocean", shown, {**settings, "policy.name": "ocean"}),
            Curve(
                "rs-wel",
                shown,
                {**alone, "policy.name": "rs-wel"},
                drawn=matters_to_rs_wel or value == values[0],
                style=None if matters_to_rs_wel else "-.",
            ),
            Curve("dual", shown, {**settings, "policy.name": "dual"}, ours=True),
            Curve("steady", shown, {**settings, "policy.name": "steady"}, ours=True),
            Curve(OCEAN_SPLIT, shown, {**settings, "policy.name": "ocean"}, ours=True, tuned=True),
        ]
    return found


def draw_policies(study: Study) -> Figure:
    drawing, (left, right) = panels()
    draw_accuracies(study, left, right)
    shared_legend(drawing, study)
    return drawing


def draw_accuracies(study: Study, left: Axes, right: Axes) -> None:
    """The paper's curves, and beside them ours with its set expansion."""
    shown = [curve for curve in study.shown if curve.drawn]
    lines(left, study, [curve for curve in shown if not curve.ours], "accuracy")
    lines(right, study, [c for c in shown if c.ours or c.method == "set-expansion"], "accuracy")
    left.set_title("the paper's curves")
    right.set_title("ours, and set expansion again")
    same_limits(left, right)
