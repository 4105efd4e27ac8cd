"""The scheduling policies of Figures 5 to 7, for each value of one setting."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pmafl.experiments.drawing import (
    WIRELESS_LABELS,
    lines,
    panels,
    same_limits,
    shared_legend,
    wireless_bars,
)
from pmafl.experiments.study import Curve, Scale, Study

ROUNDS_BETWEEN_EVALUATIONS = {"mnist": 2, "cifar10": 5}
SET_EXPANSION, OCEAN_SPLIT = "set-expansion", "ocean, best fixed split"
METHODS = {name: name for name in (SET_EXPANSION, "ocean", "rs-wel", "dual", "steady")} | {
    OCEAN_SPLIT: "ocean"
}


def policy_curves(
    scale: Scale, key: str, values: Sequence[float], pattern: str, matters_to_rs_wel: bool
) -> list[Curve]:
    """The paper's three policies and three of ours, each for all values of a setting.

    RS-WEL knows neither budgets nor V, and `steady` no V: there their runs are the same for all values, and
    are drawn once.
    """
    often = {"run.evaluate_every": ROUNDS_BETWEEN_EVALUATIONS[scale.dataset]}
    unaware = {"steady"} if key == "policy.tradeoff" else set[str]()
    unaware |= set() if matters_to_rs_wel else {"rs-wel"}
    return [
        Curve(
            method,
            pattern.format(value),
            {**often, **({} if policy in unaware else {key: value}), "policy.name": policy},
            ours=method not in (SET_EXPANSION, "ocean", "rs-wel"),
            tuned=method == OCEAN_SPLIT,
            drawn=policy not in unaware or value == values[0],
            style="-." if policy in unaware else None,
        )
        for value in values
        for method, policy in METHODS.items()
    ]


def draw_policies(study: Study) -> Figure:
    """Accuracies; where no run has learned, what needs no learning."""
    drawing, axes = panels()
    if study.shown:
        draw_accuracies(study, *axes)
    else:
        for panel, metric in zip(axes, WIRELESS_LABELS, strict=True):
            wireless_bars(panel, study, metric)
            panel.set_yscale("log")
    shared_legend(drawing, study)
    return drawing


def draw_accuracies(study: Study, left: Axes, right: Axes) -> None:
    """The paper's curves, and beside them ours with its set expansion."""
    shown = [curve for curve in study.shown if curve.drawn]
    lines(left, study, [curve for curve in shown if not curve.ours], "accuracy")
    lines(right, study, [c for c in shown if c.ours or c.method == SET_EXPANSION], "accuracy")
    left.set_title("the paper's curves")
    right.set_title("ours, and set expansion again")
    same_limits(left, right)
