"""What the results hinge on: the answers to `questions.py`.

A question has curves like a figure. Samples and energy need no learning, and have as many seeds as one likes;
accuracies stand where runs are affordable. What comes out is one page with a picture, tables and a few
sentences for each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from pmafl.comparison import Array, Estimate, Job, estimate
from pmafl.display import running
from pmafl.experiments.archive import Archive, Kept, keeper
from pmafl.experiments.claims import REPRODUCED, verdict
from pmafl.experiments.making import Where
from pmafl.experiments.policies import OCEAN_SPLIT, SET_EXPANSION
from pmafl.experiments.questions import Amount, Question, questions
from pmafl.experiments.report import NAMES, in_words, made_otherwise
from pmafl.experiments.study import (
    ENERGY,
    SAMPLES,
    NotRun,
    Run,
    Study,
    final_accuracy,
    of_curve,
    prepare,
    summaries,
    to_run,
)
from pmafl.files import write_atomically
from pmafl.plots import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PAGE", "Amount", "holds_more", "known_amount", "make", "questions", "write"]

PAGE, MANIFEST = "SENSITIVITY.md", "sensitivity.json"
UNKNOWN = "not comparable with"  # where a training diverged, or nobody takes part
NOISE = "within noise of"  # the interval decides nothing
STANDINGS = ("above", "level with", "below", NOISE, UNKNOWN)
FEWEST_SEEDS = 2  # one has no interval
DIGITS = 4  # of a mean that is written
LABEL_WIDTH, TITLE_WIDTH = 24, 60  # letters below a group of points, and in a line above all
BETWEEN_METHODS = 0.12  # of the distance between two values
ACCURACY = "accuracy"


def make(question: Question, amount: Amount, out: Path, results: Path, where: Where) -> None:
    """Run what is missing of a question and keep it."""
    archive, file = Archive(results, directories=True), evidence_file(question)
    title = f"{question.name} {question.dataset}"
    with running(title, *where, unfinished=archive.unfinished, after=keeper(archive, file)) as run:
        study = _study(question, amount, out, run, archive)
        run(to_run(study, [f"*, {value}" for value in question.learned]))
    archive.keep(file, [*study.behind, *study.wireless, *study.jobs])


def _study(question: Question, amount: Amount, out: Path, run: Run, archive: Archive) -> Study:
    scale = question.scale(amount)
    return prepare(question.name, question.curves, scale, out, question.schedules, run, archive)


def evidence_file(question: Question) -> str:
    return f"sensitivity-{question.name}-{question.dataset}"


def known_amount(results: Path) -> Amount | None:
    """How much was asked for when the page was written; nothing if it was not."""
    path = results / MANIFEST
    return Amount(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def holds_more(results: Path, amount: Amount) -> str:
    """Why a place is not to be written: it holds a page of more or other runs. Nothing if it does not.

    All questions have the same rounds, so that other ones would make a page without the runs that are kept.
    """
    path, known = results / MANIFEST, known_amount(results)
    if known and known.rounds != amount.rounds:
        return f"{path} was made with {known.rounds} rounds, unlike now"
    now = {"seeds": amount.seeds, "wireless_seeds": amount.wireless_seeds}
    return made_otherwise(path, now, amount.overrides)


def write(results: Path, amount: Amount) -> Path:
    """The page, its pictures, and how much was asked for, from what is kept."""
    archive, known, parts = Archive(results), [], []
    for question in questions():
        answers = list(_answers(question, amount, archive))
        parts.append(_section(question, answers, results))
        known += answers
    surviving = [SURVIVING, *(f"- {said}" for said in survivals(known)), ""] if known else []
    others = f", {in_words(amount.overrides)}" * bool(amount.overrides)
    head = f"{HEAD}\nAll runs have {amount.rounds} rounds{others}.\n"
    path = results / PAGE
    write_atomically(path, "\n".join([head, *surviving, *parts]).encode())
    write_atomically(results / MANIFEST, (json.dumps(asdict(amount), indent=2) + "\n").encode())
    return path


def _answers(question: Question, amount: Amount, archive: Archive) -> Iterator[Answer]:
    """What is known of samples, and of accuracies."""
    try:
        study = _study(question, amount, Path(), lambda jobs: None, archive)
    except NotRun:
        return
    asked = ((False, study.wireless, question.values), (True, study.jobs, question.learned))
    for learned, jobs, values in asked:
        answer = Answer(question, learned, jobs, values, archive)
        if answer.values:
            yield answer


class Answer:
    """The numbers of a question, samples and energy or accuracies, as far as runs are kept.

    A method counts at a value where it has enough seeds, and two are compared by those that both have.
    """

    def __init__(
        self, question: Question, learned: bool, jobs: Sequence[Job], values: Sequence[str], archive: Archive
    ) -> None:
        self.question = question
        self.learned = learned
        self._kept: dict[tuple[str, str], dict[int, Kept]] = {}
        for value in values:
            for method in question.methods:
                jobs_of = of_curve(jobs, method, value)
                known = {job.seed: kept for job in jobs_of if (kept := archive.find(job))}
                if len(known) >= FEWEST_SEEDS:
                    self._kept[method, value] = known

    @property
    def values(self) -> list[str]:
        """Those at which some method has enough seeds."""
        return list(dict.fromkeys(value for _, value in self._kept))

    @property
    def seeds(self) -> str:
        counts = [len(known) for known in self._kept.values()]
        fewest, most = min(counts), max(counts)
        return f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"

    def has(self, method: str, value: str) -> bool:
        return (method, value) in self._kept

    def numbers(self, method: str, value: str, metric: str, seeds: Sequence[int] | None = None) -> Array:
        """One entry per seed; `accuracy` in percent, NaN where the training diverged."""
        known = self._kept[method, value]
        kept = [known[seed] for seed in sorted(known if seeds is None else seeds)]
        return final_accuracy(kept) if metric == ACCURACY else summaries(kept, metric)

    def common(self, one: str, other: str, value: str) -> list[int]:
        """The seeds by which two methods are compared; none where these are too few."""
        known, others = (self._kept.get((method, value), {}) for method in (one, other))
        common = sorted(known.keys() & others.keys())
        return common if len(common) >= FEWEST_SEEDS else []

    def compared(self, one: str, other: str) -> list[str]:
        """The values at which two methods can be."""
        return [value for value in self.values if self.common(one, other, value)]

    def difference(self, one: str, other: str, value: str) -> Estimate:
        """Points of accuracy, or percent of scheduled samples, paired by seed."""
        metric, seeds = ACCURACY if self.learned else SAMPLES, self.common(one, other, value)
        numbers, others = (self.numbers(method, value, metric, seeds) for method in (one, other))
        with np.errstate(divide="ignore", invalid="ignore"):  # where nobody takes part
            return estimate(numbers - others if self.learned else 100 * (numbers / others - 1))

    def behind(self, one: str, other: str, value: str) -> tuple[str, str]:
        """The choice itself, by the keys of a run of each method: questions share runs."""
        first = self.common(one, other, value)[0]
        return self._kept[one, value][first].key, self._kept[other, value][first].key


def _section(question: Question, answers: Sequence[Answer], results: Path) -> str:
    lines = [f"## {question.title} ({question.dataset})", ""]
    if not answers:
        return "\n".join([*lines, "Not run.\n"])
    picture = _draw(question, answers, results).name
    shown = " and ".join(_heads(answer)[0][0] for answer in answers)
    lines += [f"![{shown} of every method at every choice]({picture})", ""]
    return "\n".join([*lines, *(line for answer in answers for line in _tables(answer))])


def _heads(answer: Answer) -> list[tuple[str, str]]:
    """Of its tables, and what they hold."""
    if answer.learned:
        return [("accuracy (%)", ACCURACY)]
    return [("samples per round", SAMPLES), ("energy per device and round (J)", ENERGY)]


def _tables(answer: Answer) -> Iterator[str]:
    for head, metric in _heads(answer):
        yield f"| {head}, {answer.seeds} | {' | '.join(answer.values)} |"
        yield "|---|" + "---:|" * len(answer.values)
        for method in answer.question.methods:
            cells = (_cell(answer, method, value, metric) for value in answer.values)
            yield f"| {method} | {' | '.join(cells)} |"
        yield ""
    yield from (f"- {said}" for said in sentences(answer))
    yield ""


def _cell(answer: Answer, method: str, value: str, metric: str) -> str:
    if not answer.has(method, value):
        return "not run"
    return _shown(estimate(answer.numbers(method, value, metric)))


def sentences(answer: Answer) -> Iterator[str]:
    """How one method stands to another at each value; the whole interval decides."""
    unit, what = (" points", "ends") if answer.learned else ("%", "schedules")
    for one, other in answer.question.against:
        places: dict[str, list[str]] = {standing: [] for standing in STANDINGS}
        for value in answer.compared(one, other):
            found = answer.difference(one, other, value)
            standing = _standing(found)
            number = "no number" if standing == UNKNOWN else f"{found.mean:+.3g}{unit}"
            places[standing].append(f"{value} ({number})")
        if said := [f"{where} {other} at {_list(at)}" for where, at in places.items() if at]:
            yield f"{one} {what} {'; '.join(said)}."


def survivals(answers: Sequence[Answer]) -> Iterator[str]:
    """Of each claim, under how many choices of all questions it holds, and where it does not or is undecided.

    A choice that is the preset's stands in several questions, with the same runs, and counts once.
    """
    for claim, learned, is_about in CLAIMS:
        seen, others = set[tuple[str, str]](), dict[tuple[str, str], list[str]]()
        for answer in (answer for answer in answers if answer.learned == learned):
            question = answer.question
            for one, other in (pair for pair in question.against if is_about(*pair)):
                reading = other.partition(", ")[2] if other != OCEAN_SPLIT else ""
                for value in answer.compared(one, other):
                    standing = _standing(answer.difference(one, other, value))
                    behind = answer.behind(one, other, value)
                    if standing == UNKNOWN or behind in seen:
                        continue
                    seen.add(behind)
                    if standing != "above":
                        name = f"{value} ({reading})" if reading else value
                        said = "undecided" if standing == NOISE else "not"
                        others.setdefault((said, NAMES[question.dataset]), []).append(name)
        if count := len(seen):
            held = count - sum(map(len, others.values()))
            rest = (f"; {said} on {dataset} at {_list(names)}" for (said, dataset), names in others.items())
            yield f"**{claim}** holds under {held} of {count} choices{''.join(rest)}."


def _of_oceans(one: str, other: str) -> bool:
    return one.startswith(SET_EXPANSION) and other.startswith("ocean") and other != OCEAN_SPLIT


def _of_best_split(one: str, other: str) -> bool:
    return (one, other) == (SET_EXPANSION, OCEAN_SPLIT)


def _standing(found: Estimate) -> str:
    if not np.isfinite(found.mean):
        return UNKNOWN
    if abs(found.mean) > found.half_width:
        return "above" if found.mean > 0 else "below"
    return "level with" if verdict("similar", found, None)[0] == REPRODUCED else NOISE


def _list(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def _shown(found: Estimate) -> str:
    """The half-width with as many decimals as the mean."""
    if np.isnan(found.mean):
        return "no number"
    before_point = math.floor(math.log10(abs(found.mean))) + 1 if found.mean else 1
    decimals = max(0, DIGITS - before_point)
    return f"{found.mean:.{decimals}f} ± {found.half_width:.{decimals}f}"


def _draw(question: Question, answers: Sequence[Answer], results: Path) -> Path:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    path = results / f"{evidence_file(question)}.png"
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(8, 1.2 + 2.4 * len(answers)), layout="constrained")
        panels = drawing.subplots(len(answers), sharex=True, squeeze=False)[:, 0]
        for axes, answer in zip(panels, answers, strict=True):
            _points(axes, answer)
        names = [fill(value, LABEL_WIDTH) for value in question.values]
        panels[-1].set_xticks(range(len(names)), names)
        panels[0].set_title(fill(f"{question.title} ({question.dataset})", TITLE_WIDTH))
        drawing.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9
        )
        drawing.savefig(path)
    return path


def _points(axes: Axes, answer: Answer) -> None:
    """The methods side by side at each value of the question, those without accuracies left free."""
    from matplotlib.ticker import LogLocator

    question = answer.question
    metric, label = (ACCURACY, "accuracy (%)") if answer.learned else (SAMPLES, "samples per round")
    for index, method in enumerate(question.methods):
        values = [value for value in answer.values if answer.has(method, value)]
        places = np.array([question.values.index(value) for value in values])
        found = [estimate(answer.numbers(method, value, metric)) for value in values]
        beside = (index - (len(question.methods) - 1) / 2) * BETWEEN_METHODS
        means, widths = [one.mean for one in found], [one.half_width for one in found]
        axes.errorbar(places + beside, means, widths, fmt="o", markersize=5, color=f"C{index}", label=method)
    axes.set_xlim(-0.5, len(question.values) - 0.5)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(label)
    if not answer.learned:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_minor_formatter("")


# What is claimed, whether of accuracies, and which pairs of methods it is about.
CLAIMS: tuple[tuple[str, bool, Callable[[str, str], bool]], ...] = (
    ("Set expansion schedules more samples than OCEAN", False, _of_oceans),
    ("Set expansion schedules more samples than OCEAN with its best fixed split", False, _of_best_split),
    ("Set expansion ends above OCEAN", True, _of_oceans),
    ("Set expansion ends above OCEAN with its best fixed split", True, _of_best_split),
    ("PMA-FL ends above FedRep", True, lambda one, other: one == "pma" and other.startswith("fedrep")),
    ("PMA-FL ends above FedAvg", True, lambda one, other: (one, other) == ("pma", "fedavg")),
)

HEAD = """# What the results hinge on

Written by `pmafl reproduce sensitivity` from the runs that are kept in `evidence/`. Each choice that the
paper leaves open is varied alone, all else as in the preset; after ± half the width of the 95% interval
over seeds. The sentences below a table are made from its numbers, paired by the seeds that both have:
"above" and "below" mean that the whole interval of the difference lies there, "level with" that it lies
within half a point or percent of 0, "within noise of" that it decides neither. Samples and energy need no
learning: a policy that schedules more samples for the same budgets is what the paper's accuracies rest on.
Accuracies are there where runs are affordable, on MNIST.
"""
SURVIVING = """## Which claims survive which choices
"""
