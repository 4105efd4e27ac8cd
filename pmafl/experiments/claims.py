"""The table of the paper's claims: what it says, what came out, and a verdict by a fixed rule.

A claim says which figure's runs it is about and how its number is read from them; nothing is typed but the
paper's own numbers (`statements.py`) and the reasons that were found (`reasons.py`). `HEAD` has the rules.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pmafl.comparison import Array, Estimate, estimate
from pmafl.errors import InputError
from pmafl.experiments.archive import FOLDER, Archive
from pmafl.experiments.evidence import Evidence, load_study
from pmafl.experiments.reasons import reason
from pmafl.experiments.report import how_much, title
from pmafl.experiments.study import READINGS, NotRun, Scale
from pmafl.runs import write_atomically

Kind = Literal["gain", "similar"]
SIMILAR_POINTS = 0.5
REPRODUCED, DIRECTION, NOT, NOT_RUN = "reproduced", "direction only", "not reproduced", "not run"
DIVERGED = "the training diverged"
OURS = {REPRODUCED: "holds", NOT: "does not hold"}  # of what the paper does not say


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

    def place(self, reading: str) -> str:
        """By which its reason is found, with its text."""
        return f"{self.figure}, {Scale(self.dataset, reading).suffix}"


def verdict(kind: Kind, found: Estimate, paper: float | None) -> str:
    """By the rules of `HEAD`."""
    half_width = 0.0 if math.isnan(found.half_width) else found.half_width
    if kind == "similar":
        return REPRODUCED if abs(found.mean) < SIMILAR_POINTS else NOT
    if found.mean - half_width <= 0:
        return NOT
    near = paper is None or abs(found.mean - paper) <= max(half_width, abs(paper) / 2)
    return REPRODUCED if near else DIRECTION


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
            if row["verdict"] in (NOT, DIRECTION):
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
    if isinstance(evidence, NotRun):
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
    """What a claim's number is elsewhere, where it was run and is another one."""
    for what, evidence in others.items():
        numbers = _numbers(claim, evidence)
        run = numbers["verdict"] != NOT_RUN or numbers["remark"] == DIVERGED
        if run and numbers["number"] != row["number"]:
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
    if row["verdict"] in (NOT, DIRECTION, OURS[NOT]):
        row["reason"] = reason(claim.place(reading), claim.text)
    return row


def _numbers(claim: Claim, evidence: Evidence | NotRun) -> dict[str, Any]:
    """What runs say about a claim."""
    unknown = {"number": None, "half_width": None, "seeds": 0, "verdict": NOT_RUN}
    try:
        if isinstance(evidence, NotRun):
            raise evidence
        values = evidence.read(claim.read)
    except NotRun as missing:
        return unknown | {"remark": str(missing)}
    if np.isnan(values).any():
        return unknown | {"remark": DIVERGED}
    found = estimate(values)
    decision = verdict(claim.kind, found, claim.paper)
    return {
        "number": found.mean,
        "half_width": None if math.isnan(found.half_width) else found.half_width,
        "seeds": values.size,
        "verdict": OURS.get(decision, decision) if claim.ours else decision,
        "remark": _remark(claim, found, decision),
    }


def _remark(claim: Claim, found: Estimate, decision: str) -> str:
    """What the numbers themselves say."""
    if decision != NOT or claim.kind == "similar":
        return ""
    if abs(found.mean) <= found.half_width:
        return "the interval holds 0"
    return "the sign is opposite" if found.mean < 0 else "no difference"


def to_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table, a part for each data set and reading, with the scale of its figures and what was tried."""
    lines = [HEAD]
    for dataset, reading in dict.fromkeys((row["dataset"], row["reading"]) for row in rows):
        part = [row for row in rows if (row["dataset"], row["reading"]) == (dataset, reading)]
        scales = dict.fromkeys(row["scale"] for row in part if row["scale"])
        lines += [f"## {TITLES[dataset, reading]}", "", _count(part), "", *(f"- {s}" for s in scales), ""]
        notes = list(dict.fromkeys(row["reason"] for row in part if row["reason"]))
        lines += [*COLUMNS, *(_line(row, notes) for row in part), ""]
        lines += [f"[{number}] {note}\n" for number, note in enumerate(notes, 1)]
        if tried := [line for row in part for line in _tried_lines(row)]:
            lines += ["### What was tried for those that did not come out", "", *TRIED_COLUMNS, *tried, ""]
    return "\n".join(lines)


def _count(rows: Sequence[dict[str, Any]]) -> str:
    """How many of the paper's claims came out how."""
    verdicts = [row["verdict"] for row in rows if not row["ours"]]
    counts = (f"{verdicts.count(kind)} {kind}" for kind in (REPRODUCED, DIRECTION, NOT, NOT_RUN))
    return f"Of {len(verdicts)} claims of the paper: {', '.join(counts)}."


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
TRIED_COLUMNS = ("| claim | tried | paper | there | unit | seeds | |", COLUMNS[1])
TITLES = {
    ("mnist", "chosen"): "MNIST",
    ("cifar10", "chosen"): "CIFAR-10, training as the preset chooses it",
    ("cifar10", "stated"): "CIFAR-10, training with the numbers that the paper states",
}

HEAD = """# The paper's claims, one by one

Written by `pmafl reproduce claims` from the runs that are kept in `evidence/`. Numbers are percentage
points of the mean test accuracy over devices (mean of the evaluations in the last fifth of the rounds),
paired by seed, unless a unit says otherwise; after ± the half-width of the 95% interval. **reproduced**:
the interval lies above 0 and holds the paper's number, or the two differ by less than half of the paper's.
**direction only**: above 0, another size. **not reproduced**: the rest. "Like" and "equal" must be within
half a point or percent. A single seed has no interval; its number is judged as it is. **not run**: the runs
behind it are missing. Where fewer devices train than the paper's 100 (it is said above the table), "10
devices" and "50 devices" are a tenth and a half of them, and numbers of the wireless side (in %) are still
of all 100.
"""


def write_claims(claims: Sequence[Claim], results: Path) -> Path:
    """`CLAIMS.md` and `CLAIMS.json`, from what is kept beside the figures."""
    if not any((results / FOLDER).glob("*.jsonl.gz")):
        raise InputError(f"{results / FOLDER}: holds no runs; make a figure first (pmafl reproduce fig5)")
    rows = judge(claims, results)
    write_atomically(results / "CLAIMS.json", (json.dumps(rows, indent=1) + "\n").encode())
    path = results / "CLAIMS.md"
    write_atomically(path, to_markdown(rows).encode())
    return path
