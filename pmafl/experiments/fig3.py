"""Figure 3: partial aggregation against its benchmarks on MNIST, without wireless limits."""

from typing import Any

from matplotlib.figure import Figure

from pmafl.experiments.drawing import lines, panels, shared_legend
from pmafl.experiments.study import ROUNDS_BETWEEN_EVALUATIONS, Curve, Scale, Study

DATASETS: tuple[str, ...] = ("mnist",)
SCHEDULING = False
ALGORITHMS: dict[str, dict[str, Any]] = {
    "pma": {"learning.algorithm": "pma"},
    "fedprox": {"learning.algorithm": "fedprox"},
    "fedavg": {"learning.algorithm": "fedavg"},
    "fedrep, double work": {"learning.algorithm": "fedrep"},
    "fedrep, equal work": {"learning.algorithm": "fedrep", "learning.options": {"work": "equal"}},
    "fedrep, extractor first": {
        "learning.algorithm": "fedrep",
        "learning.options": {"order": "extractor-first"},
    },
    "local": {"learning.algorithm": "local"},
}
OURS = ("local",)
FRACTIONS = (0.1, 0.5)  # of the devices, in every round: 10 and 50 of 100


def curves(scale: Scale) -> list[Curve]:
    devices = scale.training_devices
    often = {"run.evaluate_every": ROUNDS_BETWEEN_EVALUATIONS[scale.dataset]}
    found = []
    for fraction in FRACTIONS:
        count = max(1, round(fraction * devices))
        uniform = {"run.wireless": "none", "policy.name": "uniform", "policy.options": {"count": count}}
        for name, settings in ALGORITHMS.items():
            every = {**uniform, **settings, **often}
            found.append(Curve(name, f"{count} of {devices} devices", every, ours=name in OURS))
    return found


def draw(study: Study) -> Figure:
    drawing, (left, right) = panels()
    lines(left, study, study.shown, "accuracy")
    lines(right, study, study.shown, "loss")
    shared_legend(drawing, study)
    return drawing
