"""What the results hinge on: the choices that the paper leaves open, each varied alone.

A question has curves like a figure. Most need no learning, and have as many seeds as one likes; those about
training have accuracies. What comes out is one page with a picture, a table and a few sentences for each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from pmafl.comparison import Array, Estimate, estimate
from pmafl.display import running
from pmafl.experiments.archive import Archive, Kept, keeper
from pmafl.experiments.making import Where
from pmafl.experiments.policies import OCEAN_SPLIT
from pmafl.experiments.report import NAMES, made_with_more
from pmafl.experiments.study import (
    ENERGY,
    SAMPLES,
    Curve,
    NotRun,
    Run,
    Scale,
    Study,
    final_accuracy,
    of_curve,
    prepare,
    summaries,
    to_run,
)
from pmafl.files import write_atomically
from pmafl.plots import STYLE

PAGE, MANIFEST = "SENSITIVITY.md", "sensitivity.json"
UNKNOWN = "not comparable with"  # where a training diverged, or nobody takes part
FEWEST_SEEDS = 2  # one has no interval
DIGITS = 4  # of a mean that is written
LABEL_WIDTH = 24  # letters below a group of bars
SET_EXPANSION = "set-expansion"
POLICIES: dict[str, dict[str, Any]] = {
    SET_EXPANSION: {"policy.name": SET_EXPANSION},
    "ocean": {"policy.name": "ocean"},
    OCEAN_SPLIT: {"policy.name": "ocean"},
    "dual": {"policy.name": "dual"},
}
# Per multiply-add, up to where the work of a round fills most of the deadline at the highest clock.
CYCLES = {"mnist": (0.1, 0.25, 0.5, 0.85), "cifar10": (0.1, 0.25, 0.35)}
RULES = ("least-energy", "minimum-band")
PRESET, HIGHEST_CLOCK = "the preset", "highest clock"
COVERED = (RULES[0], HIGHEST_CLOCK, OCEAN_SPLIT)
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
        learns: whether accuracies are compared; else scheduled samples.
    """

    name: str
    title: str
    dataset: str
    curves: tuple[Curve, ...]
    against: tuple[tuple[str, str], ...]
    learns: bool = False

    def scale(self, amount: Amount) -> Scale:
        seeds, wireless_seeds = (amount.seeds, 0) if self.learns else (0, amount.wireless_seeds)
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
        found += [_cycles(dataset), _empty_queues(dataset), _tradeoff(dataset), _oceans(dataset)]
    return [*found, _training()]


def _grid(
    methods: Mapping[str, Mapping[str, Any]], values: Mapping[str, Mapping[str, Any]]
) -> tuple[Curve, ...]:
    every = {"run.evaluate_every": 5}
    return tuple(
        Curve(method, value, {**every, **settings, **varied}, tuned=method == OCEAN_SPLIT)
        for value, varied in values.items()
        for method, settings in methods.items()
    )


def _cycles(dataset: str) -> Question:
    values = {f"zeta = {cycles:g}": {"fleet.cycles_per_operation": cycles} for cycles in CYCLES[dataset]}
    pairs = ((SET_EXPANSION, "ocean"), (SET_EXPANSION, OCEAN_SPLIT), ("dual", OCEAN_SPLIT))
    return Question("cycles", "How many cycles an operation takes", dataset, _grid(POLICIES, values), pairs)


def _empty_queues(dataset: str) -> Question:
    methods = {
        f"{policy}, {rule}": {"policy.name": policy, "policy.options": {"empty_queues": rule}}
        for policy in (SET_EXPANSION, "ocean")
        for rule in RULES
    }
    values = {f"V = {v:g}": {"policy.tradeoff": v} for v in (0.001, 0.01, 0.1)}
    pairs = [(f"{SET_EXPANSION}, {rule}", f"ocean, {rule}") for rule in RULES]
    pairs.append((f"{SET_EXPANSION}, {RULES[0]}", f"{SET_EXPANSION}, {RULES[1]}"))
    title = "What devices with empty queues get: the least energy, or the least band as printed"
    return Question("empty-queues", title, dataset, _grid(methods, values), tuple(pairs))


def _tradeoff(dataset: str) -> Question:
    values = {f"V = {v:g}": {"policy.tradeoff": v} for v in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)}
    pairs = ((SET_EXPANSION, "ocean"), (SET_EXPANSION, OCEAN_SPLIT), ("dual", SET_EXPANSION))
    return Question(
        "tradeoff", "The weight V of samples against energy", dataset, _grid(POLICIES, values), pairs
    )


def _oceans(dataset: str) -> Question:
    methods = {
        SET_EXPANSION: POLICIES[SET_EXPANSION],
        f"ocean, {HIGHEST_CLOCK}": POLICIES["ocean"],
        OCEAN_SPLIT: POLICIES[OCEAN_SPLIT],
        "ocean, frames of 20": {"policy.name": "ocean", "policy.options": {"frame": 20}},
        "ocean, rising weights": {
            "policy.name": "ocean",
            "policy.options": {"first_weight": 0.5, "last_weight": 1.5},
        },
    }
    pairs = tuple((SET_EXPANSION, other) for other in list(methods)[1:])
    return Question("ocean", "How OCEAN is read", dataset, _grid(methods, {PRESET: {}}), pairs)


def _training() -> Question:
    some = {"run.wireless": "none", "policy.name": "uniform", "policy.options": {"count": 10}}
    methods = {name: {**some, **settings} for name, settings in ALGORITHMS.items()}
    pairs = tuple(("pma", other) for other in list(methods)[1:])
    title = "How devices train, and FedRep's order"
    return Question("training", title, "mnist", _grid(methods, TRAININGS), pairs, learns=True)


def make(question: Question, amount: Amount, out: Path, results: Path, where: Where) -> None:
    """Run what is missing of a question and keep it."""
    archive, file = Archive(results, directories=True), evidence_file(question)
    title = f"{question.name} {question.dataset}"
    with running(title, *where, unfinished=archive.unfinished, after=keeper(archive, file)) as run:
        study = _study(question, amount, out, run, archive)
        run(to_run(study))
    archive.keep(file, [*study.behind, *study.wireless, *study.jobs])


def _study(question: Question, amount: Amount, out: Path, run: Run, archive: Archive) -> Study:
    scale = question.scale(amount)
    return prepare(question.name, question.curves, scale, out, not question.learns, run, archive)


def evidence_file(question: Question) -> str:
    return f"sensitivity-{question.name}-{question.dataset}"


def known_amount(results: Path) -> Amount | None:
    """How much was asked for when the page was written; nothing if it was not."""
    path = results / MANIFEST
    return Amount(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def holds_more(results: Path, amount: Amount) -> str:
    """Why a place is not to be written: it holds a page of more runs. Nothing if it does not."""
    now = {key: number for key, number in asdict(amount).items() if isinstance(number, int)}
    return made_with_more(results / MANIFEST, now)


def write(results: Path, amount: Amount) -> Path:
    """The page, its pictures, and how much was asked for, from what is kept."""
    archive, answers, parts = Archive(results), [], []
    for question in questions():
        try:
            answer = Answer(question, _study(question, amount, Path(), lambda jobs: None, archive))
            parts.append(_section(answer, _draw(answer, results).name))
            answers.append(answer)
        except NotRun:
            parts.append(f"## {question.title} ({question.dataset})\n\nNot run.\n")
    surviving = [SURVIVING, *(f"- {said}" for said in survivals(answers)), ""] if answers else []
    path = results / PAGE
    write_atomically(path, "\n".join([HEAD, *surviving, *parts]).encode())
    write_atomically(results / MANIFEST, (json.dumps(asdict(amount), indent=2) + "\n").encode())
    return path


class Answer:
    """The numbers of a question, of the seeds of which every run is kept."""

    def __init__(self, question: Question, study: Study) -> None:
        self.question = question
        jobs = study.jobs if question.learns else study.wireless
        known: dict[tuple[str, str], dict[int, Kept]] = {}
        for curve in study.curves:
            of_it = of_curve(jobs, curve.method, curve.value)
            known[curve.method, curve.value] = {
                job.seed: kept for job in of_it if (kept := study.archive.find(job))
            }
        common = set.intersection(*(set(by_seed) for by_seed in known.values()))
        if len(common) < FEWEST_SEEDS:
            raise NotRun(f"{question.name} has {len(common)} seeds of which every run is kept")
        self.seeds = len(common)
        self._kept = {name: [by_seed[seed] for seed in sorted(common)] for name, by_seed in known.items()}

    def numbers(self, method: str, value: str, metric: str) -> Array:
        """One entry per seed; `accuracy` in percent, NaN where the training diverged."""
        kept = self._kept[method, value]
        return final_accuracy(kept) if metric == "accuracy" else summaries(kept, metric)

    def runs(self, method: str, value: str) -> tuple[str, ...]:
        """By their keys: questions share runs."""
        return tuple(kept.key for kept in self._kept[method, value])

    def difference(self, one: str, other: str, value: str) -> Estimate:
        """Points of accuracy, or percent of scheduled samples, paired by seed."""
        if self.question.learns:
            return estimate(self.numbers(one, value, "accuracy") - self.numbers(other, value, "accuracy"))
        return estimate(100 * (self.numbers(one, value, SAMPLES) / self.numbers(other, value, SAMPLES) - 1))


def _section(answer: Answer, picture: str) -> str:
    question = answer.question
    names = ("accuracy (%)",) if question.learns else ("samples per round", "energy per device and round (J)")
    metrics = ("accuracy",) if question.learns else (SAMPLES, ENERGY)
    lines = [
        f"## {question.title} ({question.dataset})",
        "",
        f"{answer.seeds} seeds.",
        "",
        f"![{names[0]} of every method at every choice]({picture})",
        "",
    ]
    for name, metric in zip(names, metrics, strict=True):
        lines += [f"| {name} | {' | '.join(question.values)} |", "|---|" + "---:|" * len(question.values)]
        for method in question.methods:
            cells = (_shown(estimate(answer.numbers(method, value, metric))) for value in question.values)
            lines.append(f"| {method} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join([*lines, *(f"- {said}" for said in sentences(answer)), ""])


def sentences(answer: Answer) -> Iterator[str]:
    """Where one method is above, level with and below another; the whole interval decides."""
    question = answer.question
    unit, what = (" points", "ends") if question.learns else ("%", "schedules")
    for one, other in question.against:
        places: dict[str, list[str]] = {
            standing: [] for standing in ("above", "level with", "below", UNKNOWN)
        }
        for value in question.values:
            found = answer.difference(one, other, value)
            number = "no number" if np.isnan(found.mean) else f"{found.mean:+.3g}{unit}"
            places[_standing(found)].append(f"{value} ({number})")
        said = (f"{where} {other} at {_list(at)}" for where, at in places.items() if at)
        yield f"{one} {what} {'; '.join(said)}."


def survivals(answers: Sequence[Answer]) -> Iterator[str]:
    """Of each claim, under how many choices of all questions it holds, and which ones it does not survive.

    A choice that is the preset's stands in several questions, with the same runs, and counts once.
    """
    for claim, is_about in CLAIMS:
        seen, lost = set[tuple[tuple[str, ...], ...]](), dict[str, list[str]]()
        for answer in answers:
            question = answer.question
            for one, other in (pair for pair in question.against if is_about(*pair)):
                reading = other.partition(", ")[2] if other != OCEAN_SPLIT else ""
                for value in question.values:
                    standing = _standing(answer.difference(one, other, value))
                    behind = (answer.runs(one, value), answer.runs(other, value))
                    if standing == UNKNOWN or behind in seen:
                        continue
                    seen.add(behind)
                    if standing != "above":
                        name = f"{value} ({reading})" if reading else value
                        lost.setdefault(NAMES[question.dataset], []).append(name)
        if count := len(seen):
            held = count - sum(map(len, lost.values()))
            said = "; ".join(f"not on {dataset} at {_list(names)}" for dataset, names in lost.items())
            yield f"**{claim}** holds under {held} of {count} choices{f'; {said}' * bool(lost)}."


def _of_oceans(one: str, other: str) -> bool:
    """Whether a pair is about OCEAN without its best split, and not at the preset, which others have too."""
    return one.startswith(SET_EXPANSION) and other.startswith("ocean") and not other.endswith(COVERED)


def _standing(found: Estimate) -> str:
    if np.isnan(found.mean):
        return UNKNOWN
    if abs(found.mean) <= found.half_width:
        return "level with"
    return "above" if found.mean > 0 else "below"


def _list(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def _shown(found: Estimate) -> str:
    """The half-width with as many decimals as the mean."""
    if np.isnan(found.mean):
        return "no number"
    before_point = math.floor(math.log10(abs(found.mean))) + 1 if found.mean else 1
    decimals = max(0, DIGITS - before_point)
    return f"{found.mean:.{decimals}f} ± {found.half_width:.{decimals}f}"


def _draw(answer: Answer, results: Path) -> Path:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    question, path = answer.question, results / f"{evidence_file(answer.question)}.png"
    metric, label = (
        ("accuracy", "accuracy (%)") if question.learns else (SAMPLES, "scheduled samples per round")
    )
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(8, 3.6), layout="constrained")
        axes = drawing.subplots()
        width = 0.8 / len(question.methods)
        for index, method in enumerate(question.methods):
            found = [estimate(answer.numbers(method, value, metric)) for value in question.values]
            places = np.arange(len(found)) + width * (index - len(question.methods) / 2 + 0.5)
            heights, errors = [one.mean for one in found], [one.half_width for one in found]
            axes.bar(places, heights, width, yerr=errors, color=f"C{index}", label=method)
        axes.set_xticks(range(len(question.values)), [fill(value, LABEL_WIDTH) for value in question.values])
        axes.set(ylabel=label, title=f"{question.title} ({question.dataset})")
        if not question.learns:
            axes.set_yscale("log")
        drawing.legend(loc="outside lower center", ncols=3, fontsize=9)
        drawing.savefig(path)
    return path


# What is claimed, and which pairs of methods it is about.
CLAIMS: tuple[tuple[str, Callable[[str, str], bool]], ...] = (
    ("Set expansion schedules more samples than OCEAN", _of_oceans),
    (
        "Set expansion schedules more samples than OCEAN with its best fixed split",
        lambda one, other: (one, other) == (SET_EXPANSION, OCEAN_SPLIT),
    ),
    ("PMA-FL ends above FedRep", lambda one, other: one == "pma" and other.startswith("fedrep")),
    ("PMA-FL ends above FedAvg", lambda one, other: (one, other) == ("pma", "fedavg")),
)

HEAD = """# What the results hinge on

Written by `pmafl reproduce sensitivity` from the runs that are kept in `evidence/`. Each choice that the
paper leaves open is varied alone, all else as in the preset; after ± half the width of the 95% interval
over seeds. The sentences below a table are made from its numbers: "above" and "below" mean that the whole
interval of the paired difference lies there. Samples and energy need no learning: a policy that schedules
more samples for the same budgets is what the paper's accuracies rest on.
"""
SURVIVING = """## Which claims survive which choices
"""
