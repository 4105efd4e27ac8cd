"""The files of a leaderboard: tables as Markdown, CSV and LaTeX, the picture, and what made them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from pmafl.comparison import SMALL, Array, Estimate, csv_text, estimate
from pmafl.experiments.archive import Archive
from pmafl.experiments.leaderboard import SPENT, TARGETS, Board, Entry, reference
from pmafl.experiments.report import columns
from pmafl.experiments.study import versions_of
from pmafl.files import write_atomically

MEGA = 1e6
LARGE = 1e6  # from which on numbers are written with an exponent
Shown = tuple[str, Callable[[Entry], str]]  # a column: its head, and its cell in the line of a method


def stem_of(board: Board, results: Path) -> Path:
    return results / f"leaderboard-{board.name}"


def holds_more(board: Board, results: Path) -> str:
    """Why a place is not to be written: it holds more, or something else. Nothing if it does not."""
    path = stem_of(board, results).with_suffix(".json")
    if not path.is_file():
        return ""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        before = {name: known[name] for name in board.facts()}
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # not ours, or damaged: written anew
    now = json.loads(json.dumps(board.facts()))
    if lost := [method for method in before["methods"] if method not in now["methods"]]:
        return f"{path} has {lost[0]} too"
    if set(before["seeds"]) - set(now["seeds"]) or before["rounds"] > now["rounds"]:
        return f"{path} was made with {len(before['seeds'])} seeds and {before['rounds']} rounds"
    for facts in (before, now):
        facts["overrides"].pop("run.rounds", None)
    for name in ("policy", "overrides"):
        if before[name] != now[name]:
            return f"{path} was made with another {name}: {before[name] or 'none'}"
    return ""


def write(board: Board, entries: Sequence[Entry], archive: Archive, results: Path, command: str) -> Path:
    """All files; the path of the table."""
    stem = stem_of(board, results)
    versions = versions_of(run for job in board.jobs if (run := archive.find(job)))
    known = {"leaderboard": board.name, "command": command, **board.facts(), "versions": versions}
    _draw(board, entries, stem)
    write_atomically(_file(stem, "csv"), to_csv(entries).encode())
    write_atomically(_file(stem, "tex"), to_latex(entries).encode())
    write_atomically(_file(stem, "json"), (json.dumps(known, indent=2) + "\n").encode())
    write_atomically(_file(stem, "md"), to_markdown(board, entries, command, versions).encode())
    return _file(stem, "md")


def _file(stem: Path, ending: str) -> Path:
    return stem.with_name(f"{stem.name}.{ending}")


def _draw(board: Board, entries: Sequence[Entry], stem: Path) -> None:
    import matplotlib as mpl

    from pmafl.plots import STYLE, Point, draw_frontier, save

    points = []
    for entry in entries:
        energy, accuracy = (estimate(entry.numbers[name]) for name in ("energy_j", "accuracy"))
        points.append(
            Point(
                entry.method,
                energy.mean,
                accuracy.mean,
                energy.half_width,
                accuracy.half_width,
                entry.unbeaten,
            )
        )
    facts = board.facts()
    title = f"{board.name}: {facts['rounds']} rounds, {len(facts['seeds'])} seeds, policy {facts['policy']}"
    with mpl.rc_context(STYLE):
        save(draw_frontier(points, title), _file(stem, "png"), "pdf", "svg")


def _number(found: Estimate, digits: int | None = None, plus_minus: str = "±", signed: bool = False) -> str:
    """A mean with the half-width of its interval: so many decimals, or three digits."""
    sign = "+" if signed else ""
    mean, width = f"{sign}.3g", ".2g"
    if digits is None and SMALL <= abs(found.mean) < LARGE:
        digits = max(0, 2 - math.floor(math.log10(abs(found.mean))))
    if digits is not None:
        mean, width = f"{sign}.{digits}f", f".{digits}f"
    text = f"{found.mean:{mean}}"
    return text if math.isnan(found.half_width) else f"{text} {plus_minus} {found.half_width:{width}}"


def _cells(entries: Sequence[Entry], plus_minus: str) -> list[Shown]:
    """The columns of the first table."""
    against = reference(entries)

    def number(name: str, digits: int | None = None, scale: float = 1.0) -> Callable[[Entry], str]:
        return lambda entry: _number(estimate(scale * entry.numbers[name]), digits, plus_minus)

    def lead(name: str, digits: int | None) -> Callable[[Entry], str]:
        def show(entry: Entry) -> str:
            if entry is against:
                return ""
            return _number(
                estimate(entry.numbers[name] - against.numbers[name]), digits, plus_minus, signed=True
            )

        return show

    return [
        ("accuracy (%)", number("accuracy", 2)),
        ("worst tenth (%)", number("worst_tenth", 2)),
        (f"against {against.method} (points)", lead("accuracy", 2)),
        ("energy (J)", number("energy_j")),
        (f"against {against.method} (J)", lead("energy_j", None)),
        ("accuracy per joule (%/J)", number("accuracy_per_j")),
        ("sent (Mbit)", number("uploaded_bits", None, 1 / MEGA)),
        ("time (s)", number("time_s", 0)),
        ("devices per round", number("devices", 1)),
    ]


def _reaching(plus_minus: str) -> list[Shown]:
    """The columns of the second table."""
    units = {"energy_j": ("J", 1.0), "uploaded_bits": ("Mbit", 1 / MEGA), "time_s": ("s", 1.0)}

    def number(part: float, name: str) -> Callable[[Entry], str]:
        return lambda entry: reaching(entry.reached[part][name], units[name][1], plus_minus)

    return [(f"{part:.0%}: {units[name][0]}", number(part, name)) for part in TARGETS for name in SPENT]


def reaching(values: Array, scale: float = 1.0, plus_minus: str = "±") -> str:
    """What it took to reach a target; a mean only where all seeds did, for those that did are the luckier."""
    there = int(np.isfinite(values).sum())
    if there < values.size:
        return f"{there} of {values.size} seeds" if there else "never"
    return _number(estimate(scale * values), None, plus_minus)


def to_markdown(board: Board, entries: Sequence[Entry], command: str, versions: dict[str, str]) -> str:
    """The tables with what was run and how to read it."""
    facts, seeds = board.facts(), board.seeds
    best = f"{entries[0].method} with {entries[0].numbers['accuracy'].mean():.2f}%"
    parts = ", ".join(f"{part:.0%}" for part in TARGETS)
    lines = [
        f"# Leaderboard: {board.name}",
        "",
        f"    {command}",
        "",
        f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]}), {facts['rounds']} rounds, "
        f"{board.settings.fleet.devices} devices, policy `{facts['policy']}`, tested every "
        f"{_rounds(facts['evaluate_every'])}.",
        f"Made with {', '.join(' '.join(both) for both in versions.items())}.",
        "",
        f"![accuracy against joules per device](leaderboard-{board.name}.png)",
        "",
        *_table(entries, _cells(entries, "±"), bold=True),
        "",
        *(f"- {note}" for note in notes(board, entries)),
        "",
        "## What it takes to reach a part of the best",
        "",
        f"The best is {best}. For {parts} of it: joules and bits per device, and seconds, until",
        "an accuracy as high was first measured.",
        "",
        *_table(entries, _reaching("±")),
        "",
        HOW_TO_READ.format(against=reference(entries).method),
    ]
    return "\n".join(lines)


def _rounds(count: int) -> str:
    return "round" if count == 1 else f"{count} rounds"


HOW_TO_READ = """## How to read it

- After ±: half the width of the 95% interval over seeds (Student's t). Differences are paired, seed by
  seed to {against}, on the same channels, data and first weights.
- Accuracy: of each device on its own test samples, mean over all devices, those that never took part
  included; mean of the tests in the last fifth of the rounds. Worst tenth: of the devices with the
  lowest.
- Energy and bits: per device, in all rounds, mean over all devices. Time: simulated; a round lasts until
  its last device has uploaded. The policy knows what a round of a method costs: where it heeds energy,
  devices take part less often under a method that costs more.
- **Bold**: no other method has as much accuracy for less energy, or more for as little, by the means.
- Methods that tune before a test are charged for it once, in energy and time, at the clock that takes least
  energy; also where they reach a part of the best.
- "never": with no seed. Where some seeds reached it, their mean would flatter, so their number stands
  instead.
- Charged to nobody: tests, encoding, sleep, the server, and receiving where the settings give no rate or
  power.
"""


def notes(board: Board, entries: Sequence[Entry]) -> list[str]:
    """What the numbers alone do not say."""
    lines = [
        f"{entry.method}: the training diverged with {entry.diverged} of {len(board.seeds)} seeds."
        for entry in entries
        if entry.diverged
    ]
    lines += [f"{method} is left out: {reason}." for method, reason in board.unfit.items()]
    return lines


def _table(entries: Sequence[Entry], columns: Sequence[Shown], bold: bool = False) -> list[str]:
    heads = " | ".join(head for head, _ in columns)
    lines = [f"| method | {heads} |", "|---|" + "---:|" * len(columns)]
    for entry in entries:
        name = f"**{entry.method}**" if bold and entry.unbeaten else entry.method
        lines.append(f"| {name} | " + " | ".join(cell(entry) for _, cell in columns) + " |")
    return lines


def to_csv(entries: Sequence[Entry]) -> str:
    """All numbers, a line per method; empty where not all seeds reached a target."""
    against = reference(entries)
    heads = ["method", "seeds", "diverged_seeds", "unbeaten"]
    names = list(entries[0].numbers)
    heads += columns(names)
    heads += columns(f"{name}_against_{against.method}" for name in ("accuracy", "energy_j"))
    for part in TARGETS:
        heads += [f"reached_{part:.0%}_seeds", *columns(f"{name}_to_{part:.0%}" for name in SPENT)]
    lines = [heads]
    for entry in entries:
        cells: list[Any] = [entry.method, entry.numbers["accuracy"].size, entry.diverged, int(entry.unbeaten)]
        cells += _estimates(entry.numbers[name] for name in names)
        cells += _estimates(entry.numbers[name] - against.numbers[name] for name in ("accuracy", "energy_j"))
        for part in TARGETS:
            cells.append(int(np.isfinite(entry.reached[part]["time_s"]).sum()))
            cells += _estimates(entry.reached[part][name] for name in SPENT)
        lines.append(cells)
    return csv_text(lines)


def _estimates(several: Iterable[Array]) -> list[str]:
    found = (part for one in map(estimate, several) for part in (one.mean, one.half_width))
    return ["" if np.isnan(number) else f"{number:.7g}" for number in found]


def to_latex(entries: Sequence[Entry]) -> str:
    """Both tables with booktabs' rules; the methods that nothing beats are bold."""
    return "\n".join(
        _tabular(entries, columns) for columns in (_cells(entries, r"$\pm$"), _reaching(r"$\pm$"))
    )


def _tabular(entries: Sequence[Entry], columns: Sequence[Shown]) -> str:
    lines = [r"\begin{tabular}{l" + "r" * len(columns) + "}", r"\toprule"]
    lines += [" & ".join(["method", *(head for head, _ in columns)]) + r" \\", r"\midrule"]
    for entry in entries:
        name = rf"\textbf{{{entry.method}}}" if entry.unbeaten else entry.method
        lines.append(" & ".join([name, *(cell(entry) for _, cell in columns)]) + r" \\")
    text = "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])
    return text.replace("_", r"\_").replace("%", r"\%")


def for_screen(entries: Sequence[Entry]) -> Table:
    """What matters most, for a terminal."""
    table = Table(title="mean ± 95% interval over seeds; *: nothing beats it in accuracy and energy")
    table.add_column("", no_wrap=True)
    columns = [
        column
        for column in (*_cells(entries, "±"), *_reaching("±"))
        if column[0] in ("accuracy (%)", "worst tenth (%)", "energy (J)", "90%: J")
    ]
    for head, _ in columns:
        table.add_column(head.replace("90%: J", "J to 90% of the best"), justify="right")
    for entry in entries:
        table.add_row(f"{entry.method}{' *' * entry.unbeaten}", *(cell(entry) for _, cell in columns))
    return table
