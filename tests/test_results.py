"""What pages say of results is what the files of results hold."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from pmafl.experiments import leaderboard, standings

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
BOARDS = sorted(path.stem.removeprefix("leaderboard-") for path in RESULTS.glob("leaderboard-*.json"))


def board(name):
    """The lines of a leaderboard by method."""
    with (RESULTS / f"leaderboard-{name}.csv").open(encoding="utf-8") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def accuracy(row):
    diverged, seeds = int(row["diverged_seeds"]), int(row["seeds"])
    if diverged:
        return "diverged" if diverged == seeds else f"{diverged} of {seeds} seeds diverged"
    return f"{float(row['accuracy_mean']):.1f} ± {float(row['accuracy_half_width']):.1f}%"


def joules(row):
    there, seeds = int(row["reached_90%_seeds"]), int(row["seeds"])
    if there == seeds:
        return f"{float(row['energy_j_to_90%_mean']):.2f} J"
    return f"{there} of {seeds} seeds" if there else "never"


def rows_of(page, heads):
    """The cells of the table with these heads."""
    lines = iter((ROOT / page).read_text("utf-8").splitlines())
    assert any(line == f"| {heads} |" for line in lines), page
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_the_readme_has_every_method_on_the_watches():
    heads = "| accuracy | to 90% of the best | | accuracy | to 90% of the best"
    known, seen = board("watch"), []
    for cells in rows_of("README.md", heads):
        for names, *said in (cells[:3], cells[3:]):
            for name in names_in(names):
                assert said == [accuracy(known[name]), joules(known[name])], name
                seen.append(name)
    assert sorted(seen) == sorted(known)


def test_the_page_of_the_watches_has_every_method():
    heads = "algorithm | accuracy | worst tenth | watches per round | joules to 90% of the best"
    known, seen = board("watch"), []
    for cells in rows_of("docs/watch.md", heads):
        (name,) = names_in(cells[0])
        row = known[name]
        worst, devices = float(row["worst_tenth_mean"]), float(row["devices_mean"])
        assert cells[1:] == [accuracy(row), f"{worst:.1f}%", f"{devices:.1f}", joules(row)], name
        seen.append(name)
    assert seen == list(known)


@pytest.mark.parametrize("page", ["README.md", "docs/watch.md"])
def test_sentences_about_the_watches_say_what_the_board_has(page):
    text, known = " ".join((ROOT / page).read_text("utf-8").split()), board("watch")
    alone, lead = known["local"], float(known["local"]["accuracy_against_pma_mean"])
    half_width = float(alone["accuracy_against_pma_half_width"])
    assert f"{float(alone['accuracy_mean']):.1f}%" in text
    assert f"costs {lead:.1f} ± {half_width:.1f}" in text


@pytest.mark.parametrize("name", BOARDS)
def test_leaderboards_are_made_again_from_what_is_kept(name, tmp_path):
    made = f"leaderboard-{name}"
    known = json.loads((RESULTS / f"{made}.json").read_text("utf-8"))
    (tmp_path / "evidence").mkdir()
    shutil.copy(RESULTS / "evidence" / f"{made}.jsonl.gz", tmp_path / "evidence")
    archive = leaderboard.open_archive(tmp_path)
    board = leaderboard.plan(
        name, known["overrides"], known["methods"], len(known["seeds"]), None, tmp_path / "runs", archive
    )
    assert archive.unfinished(board.jobs) == []
    entries = leaderboard.measure(board, archive)
    standings.write(board, entries, archive, tmp_path, known["command"])
    for ending in ("md", "csv", "tex", "json"):
        assert (tmp_path / f"{made}.{ending}").read_bytes() == (RESULTS / f"{made}.{ending}").read_bytes()
