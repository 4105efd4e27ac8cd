"""What is asked about the results: the choices that the paper leaves open, each varied alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pmafl.experiments.policies import OCEAN_SPLIT, ROUNDS_BETWEEN_EVALUATIONS, SET_EXPANSION
from pmafl.experiments.study import Curve, Scale

POLICIES: dict[str, dict[str, Any]] = {
    SET_EXPANSION: {"policy.name": SET_EXPANSION},
    "ocean": {"policy.name": "ocean"},
    OCEAN_SPLIT: {"policy.name": "ocean"},
    "dual": {"policy.name": "dual"},
}
# Per multiply-add, up to where the work of a round fills most of the deadline at the highest clock.
CYCLES = {"mnist": (0.1, 0.25, 0.5, 0.85), "cifar10": (0.1, 0.25, 0.35)}
RULES: dict[str, dict[str, Any]] = {
    "least-energy": {},
    "minimum-band": {"policy.options": {"empty_queues": "minimum-band"}},
}
TRADEOFFS = {f"V = {v:g}": {"policy.tradeoff": v} for v in (1e-4, 1e-3, 1e-2, 1e-1)}
# Devices spend ten times their budgets: what they learn with that says nothing.
UNBOUNDED = {"V = 1": {"policy.tradeoff": 1.0}}
PRESET = "the preset"
TRAININGS: dict[str, dict[str, Any]] = {
    "whole batches with momentum 0.9": {},
    "whole batches with momentum 0.9, bf16": {"learning.precision": "bf16"},
    "whole batches without momentum": {"learning.momentum": 0.0},
    "batches of 50 without momentum": {"learning.batch_size": 50, "learning.momentum": 0.0},
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "pma": {"learning.algorithm": "pma"},
    "fedrep, head first": {"learning.algorithm": "fedrep"},
    "fedrep, extractor first": {
        "learning.algorithm": "fedrep",
        "learning.options": {"order": "extractor-first"},
    },
    "fedrep, equal work": {"learning.algorithm": "fedrep", "learning.options": {"work": "equal"}},
    "fedavg": {"learning.algorithm": "fedavg"},
}


@dataclass(frozen=True)
class Amount:
    """How much is run."""

    seeds: int = 3
    wireless_seeds: int = 100
    rounds: int = 100
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """Something that is varied alone.

    Attributes:
        name: of its files.
        title: what is asked.
        dataset: the preset.
        curves: methods by values.
        against: pairs of methods that are compared at each value.
        schedules: whether samples and energy are compared.
        learned: the values at which accuracies are.
    """

    name: str
    title: str
    dataset: str
    curves: tuple[Curve, ...]
    against: tuple[tuple[str, str], ...]
    schedules: bool = True
    learned: tuple[str, ...] = ()

    def scale(self, amount: Amount) -> Scale:
        seeds = amount.seeds if self.learned else 0
        wireless_seeds = amount.wireless_seeds if self.schedules else 0
        return Scale(self.dataset, "chosen", seeds, wireless_seeds, amount.rounds, None, amount.overrides)

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(curve.method for curve in self.curves))

    @property
    def values(self) -> list[str]:
        return list(dict.fromkeys(curve.value for curve in self.curves))


def questions() -> list[Question]:
    found = []
    for dataset in CYCLES:
        found += [_cycles(dataset), _tradeoff(dataset), _empty_queues(dataset), _oceans(dataset)]
    return [*found, _training()]


def _of_policies(
    name: str,
    title: str,
    dataset: str,
    methods: Mapping[str, Mapping[str, Any]],
    values: Mapping[str, Mapping[str, Any]],
    against: Sequence[tuple[str, str]],
) -> Question:
    """Evaluated like Figures 5 to 7, so that runs are shared; on CIFAR-10 learning takes too long."""
    every = {"run.evaluate_every": ROUNDS_BETWEEN_EVALUATIONS[dataset]}
    learned = tuple(value for value in values if dataset == "mnist" and value not in UNBOUNDED)
    curves = _grid(every, methods, values)
    return Question(name, title, dataset, curves, tuple(against), learned=learned)


def _grid(
    common: Mapping[str, Any],
    methods: Mapping[str, Mapping[str, Any]],
    values: Mapping[str, Mapping[str, Any]],
) -> tuple[Curve, ...]:
    return tuple(
        Curve(method, value, {**common, **settings, **varied}, tuned=method == OCEAN_SPLIT)
        for value, varied in values.items()
        for method, settings in methods.items()
    )


def _cycles(dataset: str) -> Question:
    values = {f"zeta = {cycles:g}": {"fleet.cycles_per_operation": cycles} for cycles in CYCLES[dataset]}
    pairs = ((SET_EXPANSION, "ocean"), (SET_EXPANSION, OCEAN_SPLIT), ("dual", OCEAN_SPLIT))
    return _of_policies("cycles", "How many cycles an operation takes", dataset, POLICIES, values, pairs)


def _tradeoff(dataset: str) -> Question:
    title = "The weight V of samples against energy"
    pairs = ((SET_EXPANSION, "ocean"), (SET_EXPANSION, OCEAN_SPLIT), ("dual", SET_EXPANSION))
    return _of_policies("tradeoff", title, dataset, POLICIES, TRADEOFFS | UNBOUNDED, pairs)


def _empty_queues(dataset: str) -> Question:
    title = "What devices with empty queues get: the least energy, or the least band as printed"
    methods = {
        f"{policy}, {rule}": {"policy.name": policy, **settings}
        for policy in (SET_EXPANSION, "ocean")
        for rule, settings in RULES.items()
    }
    values = {f"V = {v:g}": {"policy.tradeoff": v} for v in (0.001, 0.01, 0.1)}
    one, other = (f"{SET_EXPANSION}, {rule}" for rule in RULES)
    pairs = [(f"{SET_EXPANSION}, {rule}", f"ocean, {rule}") for rule in RULES]
    return _of_policies("empty-queues", title, dataset, methods, values, [*pairs, (one, other)])


def _oceans(dataset: str) -> Question:
    methods = {
        SET_EXPANSION: POLICIES[SET_EXPANSION],
        "ocean, highest clock": POLICIES["ocean"],
        OCEAN_SPLIT: POLICIES[OCEAN_SPLIT],
        "ocean, frames of 20": {"policy.name": "ocean", "policy.options": {"frame": 20}},
        "ocean, rising weights": {
            "policy.name": "ocean",
            "policy.options": {"first_weight": 0.5, "last_weight": 1.5},
        },
    }
    pairs = [(SET_EXPANSION, other) for other in list(methods)[1:]]
    return _of_policies("ocean", "How OCEAN is read", dataset, methods, {PRESET: {}}, pairs)


def _training() -> Question:
    some = {"run.wireless": "none", "policy.name": "uniform", "policy.options": {"count": 10}}
    curves = _grid({**some, "run.evaluate_every": 5}, ALGORITHMS, TRAININGS)
    pairs = tuple(("pma", other) for other in list(ALGORITHMS)[1:])
    title = "How devices train, and FedRep's order"
    return Question("training", title, "mnist", curves, pairs, schedules=False, learned=tuple(TRAININGS))
