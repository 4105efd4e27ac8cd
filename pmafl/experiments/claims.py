"""The table of the paper's claims: what it says, what came out, and a verdict by a fixed rule.

A claim says which figure's runs it is about and how its number is read from them; nothing is typed but the
paper's own numbers (`statements.py`) and the reasons that were found (`reasons.py`). `HEAD` has the rules.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pmafl.comparison import Array, Estimate, estimate
from pmafl.experiments.archive import Archive, check_kept, rounded
from pmafl.experiments.evidence import Evidence, load_study
from pmafl.experiments.reasons import reason
from pmafl.experiments.report import how_much, title
from pmafl.experiments.study import READINGS, NotRun, NotTested, Scale
from pmafl.runs import write_atomically

Kind = Literal["gain", "similar"]
SIMILAR = 0.5  # points, percent or rounds
SIMILAR_NATS = 0.015  # as much loss as half a point of accuracy goes with, in Figures 3 and 4
SIZE_MARGIN = 0.5  # of the paper's number
DIGITS = 6  # of a number that is written
REPRODUCED, DIRECTION, NOT = "reproduced", "direction only", "not reproduced"
UNDECIDED, NOT_TESTED, NOT_RUN = "undecided", "not tested", "not run"
VERDICTS = (REPRODUCED, DIRECTION, NOT, UNDECIDED, NOT_TESTED, NOT_RUN)
DIVERGED = "the training diverged"
OURS = {REPRODUCED: "holds", NOT: "does not hold"}  # of what the paper does not say
OPEN = (NOT, OURS[NOT], DIRECTION)  # what asks for a reason


@dataclass(frozen=True)
class Claim:
    """One statement of the paper.

    Attributes:
        text: what it says.
        read: our number from the runs, an entry per seed.
        paper: its number, where it has one.
        where: in the paper.
        figure, dataset: whose runs decide.
        unit: of both.
        kind: whether the number should be positive ("gain") or near 0 ("similar").
        ours: not a claim of the paper, but what we add to one.
        exact: no run decides it, and no seed.
    """

    text: str
    read: Callable[[Evidence], Array]
    paper: float | None = None
    where: str = ""
    figure: str = ""
    dataset: str = ""
    unit: str = "points"
    kind: Kind = "gain"
    ours: bool = False
    exact: bool = False

    def place(self, reading: str) -> str:
        """By which its reason is found, with its text."""
        return f"{self.figure}, {Scale(self.dataset, reading).suffix}"


def verdict(kind: Kind, found: Estimate, paper: float | None, unit: str = "points") -> tuple[str, str]:
    """By the rules of `HEAD`, with a remark. A wider interval never makes a better verdict."""
    similar = SIMILAR_NATS if unit == "nats" else SIMILAR
    if math.isnan(found.half_width):
        return UNDECIDED, "a single seed has no interval"
    low, high = found.mean - found.half_width, found.mean + found.half_width
    if kind == "similar":
        return _within(low, high, -similar, similar)
    if low <= 0:
        if high < 0:
            return NOT, "the sign is opposite"
        margin = similar if paper is None else SIZE_MARGIN * abs(paper)
        if high > margin:
            return UNDECIDED, "the interval holds 0"
        return NOT, "no difference" if low > -margin else "no gain"
    if paper is None:
        return REPRODUCED, ""
    size, _ = _within(low, high, (1 - SIZE_MARGIN) * paper, (1 + SIZE_MARGIN) * paper)
    if size == REPRODUCED:
        return REPRODUCED, ""
    return DIRECTION, "the interval does not decide its size" if size == UNDECIDED else "another size"


def _within(low: float, high: float, least: float, most: float) -> tuple[str, str]:
    """Whether an interval lies in a range (a test of equivalence), or beside it."""
    if least < low and high < most:
        return REPRODUCED, ""
    return (NOT, "") if high <= least or low >= most else (UNDECIDED, "the interval reaches over the margin")


def judge(claims: Sequence[Claim], results: Path) -> list[dict[str, Any]]:
    """A row for every claim, and on CIFAR-10 for every reading."""

    archive = Archive(results)

    @cache
    def evidence(figure: str, dataset: str, reading: str) -> Evidence | NotRun:
        return _found(figure, dataset, reading, results, archive)

    @cache
    def others(figure: str, dataset: str, reading: str) -> dict[str, Evidence]:
        found = _others(evidence(figure, dataset, reading), results / "tried")
        for name in READINGS:
            other = evidence(figure, dataset, name)
            if name != reading and isinstance(other, Evidence):
                found[f"{name} training, {other.study.scale.training_devices} devices"] = other
        return found

    rows = []
    for claim in claims:
        for reading in READINGS if claim.dataset == "cifar10" else ("chosen",):
            which = (claim.figure, claim.dataset, reading)
            row = _row(claim, reading, evidence(*which))
            if row["verdict"] in (*OPEN, UNDECIDED):
                row["tried"] = list(_tried(claim, row, others(*which)))
            rows.append(row)
    return rows


def _found(figure: str, dataset: str, reading: str, results: Path, archive: Archive) -> Evidence | NotRun:
    try:
        return Evidence(load_study(figure, dataset, reading, results, archive))
    except NotRun as missing:
        return missing


def _others(evidence: Evidence | NotRun, tried: Path) -> dict[str, Evidence]:
    """What else can be asked about a figure: its first rounds, and studies of it under other settings."""
    if isinstance(evidence, NotRun) or not evidence.study.jobs:
        return {}
    study = evidence.study
    first_evaluation = study.jobs[0].settings.run.evaluate_every
    first_parts = (study.scale.rounds // part for part in (4, 2))
    found = {f"after {n} rounds": Evidence(study, until=n) for n in first_parts if n >= first_evaluation}
    for place in sorted(tried.glob("*/")):
        other = _found(study.name, study.scale.dataset, study.scale.reading, place, Archive(place))
        if isinstance(other, Evidence):
            found[how_much(other.study.scale)] = other
    return found


def _tried(claim: Claim, row: dict[str, Any], others: dict[str, Evidence]) -> Iterator[dict[str, Any]]:
    """What a claim's number is elsewhere, where that says something and is another one."""
    for what, evidence in others.items():
        numbers = _numbers(claim, evidence)
        says = numbers["verdict"] not in (UNDECIDED, NOT_TESTED, NOT_RUN) or numbers["remark"] == DIVERGED
        if says and numbers["number"] != row["number"]:
            yield {"what": what, **numbers}


def _row(claim: Claim, reading: str, evidence: Evidence | NotRun) -> dict[str, Any]:
    row: dict[str, Any] = {
        "claim": claim.text,
        "where": claim.where,
        "dataset": claim.dataset,
        "reading": reading,
        "figure": claim.figure,
        "paper": claim.paper,
        "unit": claim.unit,
        "ours": claim.ours,
        "scale": "",
        "reason": "",
        "tried": [],
        **_numbers(claim, evidence),
    }
    if isinstance(evidence, Evidence):
        row["scale"] = title(evidence.study)
    if row["verdict"] in OPEN:
        row["reason"] = reason(claim.place(reading), claim.text)
    return row


def _numbers(claim: Claim, evidence: Evidence | NotRun) -> dict[str, Any]:
    """What runs say about a claim."""
    unknown = {"number": None, "half_width": None, "seeds": 0, "verdict": NOT_RUN}
    try:
        if isinstance(evidence, NotRun):
            raise evidence
        values = evidence.read(claim.read)
    except NotTested as why:
        return unknown | {"verdict": NOT_TESTED, "remark": str(why)}
    except NotRun as missing:
        return unknown | {"remark": str(missing)}
    if np.isnan(values).any():
        return unknown | {"verdict": NOT_TESTED, "remark": DIVERGED}
    found = Estimate(float(values.mean()), 0.0) if claim.exact else estimate(values)
    if claim.unit == "rounds":  # no finer than the rounds between two tests
        between = evidence.study.jobs[0].settings.run.evaluate_every
        found = replace(found, half_width=max(found.half_width, between))
    decision, remark = verdict(claim.kind, found, claim.paper, claim.unit)
    return {
        "number": rounded(found.mean, DIGITS),
        "half_width": None if claim.exact else rounded(found.half_width, DIGITS),
        "seeds": 0 if claim.exact else values.size,
        "verdict": OURS.get(decision, decision) if claim.ours else decision,
        "remark": remark,
    }


def to_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table, a part for each data set and reading, with the scale of its figures and what was tried."""
    lines = [HEAD]
    for dataset, reading in dict.fromkeys((row["dataset"], row["reading"]) for row in rows):
        part = [row for row in rows if (row["dataset"], row["reading"]) == (dataset, reading)]
        lines += [f"## {TITLES[dataset, reading]}", ""]
        scales = dict.fromkeys(row["scale"] for row in part if row["scale"])
        if not scales:
            command = f"pmafl reproduce all --dataset {dataset}{' --reading stated' * (reading == 'stated')}"
            lines += [f"None of {len(part)} claims was run: `{command}`.", ""]
            continue
        lines += [_count(part), "", *(f"- {s}" for s in scales), ""]
        notes = list(dict.fromkeys(row["reason"] for row in part if row["reason"]))
        lines += [*COLUMNS, *(_line(row, notes) for row in part), ""]
        lines += [f"[{number}] {note}\n" for number, note in enumerate(notes, 1)]
        if tried := [line for row in part for line in _tried_lines(row)]:
            lines += [TRIED, *TRIED_COLUMNS, *tried, ""]
    return "\n".join(lines)


def _count(rows: Sequence[dict[str, Any]]) -> str:
    """How many of the paper's claims came out how: those with a number of its own, and the others."""
    sentences = []
    for kind, has_number in (("numbers", True), ("statements without a number", False)):
        papers = [row for row in rows if not row["ours"] and (row["paper"] is not None) == has_number]
        verdicts = [row["verdict"] for row in papers]
        counts = (f"{verdicts.count(name)} {name}" for name in VERDICTS if name in verdicts)
        sentences.append(f"Of {len(verdicts)} {kind} of the paper: {', '.join(counts)}.")
    return " ".join(sentences)


def _line(row: dict[str, Any], notes: Sequence[str]) -> str:
    mark = f" [{notes.index(row['reason']) + 1}]" if row["reason"] else ""
    return _cells(_name(row), row["where"], *_shown(row, row), f"**{row['verdict']}**{_colon(row)}{mark}")


def _tried_lines(row: dict[str, Any]) -> Iterator[str]:
    for position, found in enumerate(row["tried"]):
        name = "" if position else _name(row)
        outcome = DIVERGED if found["number"] is None else f"{found['verdict']}{_colon(found)}"
        yield _cells(name, found["what"], *_shown(row, found), outcome)


def _colon(found: dict[str, Any]) -> str:
    return f": {found['remark']}" if found["remark"] else ""


def _name(row: dict[str, Any]) -> str:
    return f"{row['claim']} (ours, not in the paper)" if row["ours"] else str(row["claim"])


def _shown(row: dict[str, Any], found: dict[str, Any]) -> tuple[str, ...]:
    """The paper's number, ours, unit and seeds."""
    digits = 3 if row["unit"] == "nats" else 2
    number = "" if found["number"] is None else f"{found['number']:+.{digits}f}"
    number += "" if found["half_width"] is None else f" ± {found['half_width']:.{digits}f}"
    paper = "" if row["paper"] is None else f"{row['paper']:+g}"
    return paper, number, "" if row["unit"] == "points" else row["unit"], str(found["seeds"] or "")


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


COLUMNS = ("| claim | where | paper | here | unit | seeds | |", "|---|---|---:|---:|---|---:|---|")
TRIED = """### What was tried for those that did not come out

"After N rounds" is what the first N rounds say: the tests in the last fifth of these.
"""
TRIED_COLUMNS = ("| claim | tried | paper | there | unit | seeds | |", COLUMNS[1])
TITLES = {
    ("mnist", "chosen"): "MNIST",
    ("cifar10", "chosen"): "CIFAR-10, training as the preset chooses it",
    ("cifar10", "stated"): "CIFAR-10, training with the numbers that the paper states",
}

HEAD = """# The paper's claims, one by one

Written by `pmafl reproduce claims` from the runs that are kept in `evidence/`. Numbers are percentage
points of the mean test accuracy over devices (mean of the evaluations in the last fifth of the rounds),
paired by seed, unless a unit says otherwise; after ± the half-width of the 95% interval (of rounds at least
those between two tests). All verdicts are about the whole interval: a wider one never makes a better
verdict, though one row in forty may pass by chance. **reproduced**: it lies above 0 and, where the paper
has a number, between half and one and a half times that; for "like" and "equal" within the margin, which is
half a point, half a percent, or 0.015 nats of loss. **direction only**: above 0, but not within that range.
**not reproduced**: below 0, or around 0 and below half of the paper's number or, where it has none, below
the margin; for "like" and "equal" outside of it. **undecided**: the interval decides neither, or there is
none because there is one seed. **not tested**: the runs cannot decide, because fewer devices train than the
paper's 100, and less than five of them per round, which is hardly an average, because what is compared did
not happen, or because a training diverged. **not run**: there are no such runs. "10 devices" and "50
devices" are a tenth and a half of those that train; numbers of the wireless side (in %) are always of all
100.
"""


def write_claims(claims: Sequence[Claim], results: Path) -> Path:
    """`CLAIMS.md` and `CLAIMS.json`, from what is kept beside the figures."""
    check_kept(results)
    rows = judge(claims, results)
    write_atomically(results / "CLAIMS.json", (json.dumps(rows, indent=1) + "\n").encode())
    path = results / "CLAIMS.md"
    write_atomically(path, to_markdown(rows).encode())
    return path
