"""What pages say of results is what the files of results hold."""

import csv
import gzip
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from pmafl.cli import app
from pmafl.experiments import claims, leaderboard, sensitivity, standings, statements

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
SPENT = ("results/README.md", "evidence | runs | hours of a core")
WORDS = {
    claims.REPRODUCED: "come out",
    claims.DIRECTION: "do in direction only",
    claims.NOT: "do not",
    claims.UNDECIDED: "are undecided",
    claims.NOT_TESTED: "cannot be tested",
    claims.NOT_RUN: "wait for runs",
}
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


def short(row):
    """Accuracy and joules in a few words."""
    return accuracy(row) if int(row["diverged_seeds"]) else f"{accuracy(row)}, {joules(row)}"


def test_the_readme_has_every_method_on_both_boards():
    boards, seen = [board("watch"), board("mnist")], []
    for cells in rows_of("README.md", "| watches | MNIST | | watches | MNIST"):
        for names, *said in (cells[:3], cells[3:]):
            for name in names_in(names):
                assert said == [short(known[name]) for known in boards], name
                seen.append(name)
    assert sorted(seen) == sorted(boards[0]) == sorted(boards[1])


def test_what_is_said_of_methods_on_mnist_is_on_the_board():
    text, known = (ROOT / "docs" / "leaderboard.md").read_text("utf-8"), board("mnist")
    said = re.findall(r"`([a-z-]+)`\s+\(([\d.]+ ± [\d.]+%)\)", text)
    assert len(said) > 5
    for name, number in said:
        assert number == accuracy(known[name]), name


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


def table(name):
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ends(figure):
    """What the curves of Figure 3 or 4 go through with 10 of 100 devices, and end with, in percent."""
    heads = {"10 of 100 devices": "at the end", "50 of 100 devices": "with 50 of 100"}
    through = {
        (row["method"], f"round {row['round']}"): percent(row["accuracy_mean"])
        for row in table(figure)
        if heads[row["value"]] == "at the end"
    }
    return through | {(row["method"], heads[row["value"]]): final(row) for row in table(f"{figure}-final")}


def percent(number):
    return f"{100 * float(number):.1f}%"


def final(row):
    """With its interval, where there is one."""
    mean, half_width = row["accuracy_mean"], row["accuracy_half_width"]
    return f"{percent(mean)[:-1]} ± {percent(half_width)}" if half_width else percent(mean)


def test_the_readme_says_what_figure_4_ends_with():
    said = " ".join((ROOT / "README.md").read_text("utf-8").split())
    of = {name: ends("fig4-cifar10")[name, "at the end"] for name in ("pma", "local", "fedavg")}
    assert f"on CIFAR-10 `pma` has {of['pma']}, `local` {of['local']}, `fedavg` {of['fedavg']}" in said


@pytest.mark.parametrize(
    ("figure", "heads"),
    [
        ("fig3-mnist", ["round 20", "round 40", "round 60", "round 100", "at the end", "with 50 of 100"]),
        ("fig4-cifar10", ["round 20", "round 40", "round 60", "round 80", "round 100", "at the end"]),
    ],
)
def test_the_page_of_results_has_every_algorithm(figure, heads):
    known, seen = ends(figure), []
    for name, *numbers in rows_of("docs/results/index.md", " | ".join(["algorithm", *heads])):
        method = name.replace("`", "")
        assert numbers == [known[method, head] for head in heads], name
        seen.append(method)
    assert sorted(seen) == sorted({method for method, _ in known})


@pytest.mark.parametrize(
    ("dataset", "heads"), [("mnist", ["0.1 J", "0.14 J"]), ("cifar10", ["2 J", "3 J", "4 J"])]
)
def test_the_page_of_results_has_every_policy_of_figure_5(dataset, heads):
    known = {(row["method"], row["value"]): final(row) for row in table(f"fig5-{dataset}-final")}
    seen = []
    for name, *numbers in rows_of("docs/results/index.md", " | ".join(["policy", *heads])):
        method = name.replace("`", "")
        assert numbers == [known.get((method, head), "not run") for head in heads], name
        seen.append(method)
    assert sorted(seen) == sorted({method for method, value in known if value in heads})


def test_the_page_of_results_has_every_number_of_shared_layers():
    known = {row["value"]: row for row in table("fig2-mnist-final")}
    said = list(rows_of("docs/results/index.md", "shared layers | accuracy | loss (nats)"))
    assert [f"n = {cells[0][0]}" for cells in said] == list(known)
    for (_, *numbers), row in zip(said, known.values(), strict=True):
        loss = f"{float(row['loss_mean']):.3f} ± {float(row['loss_half_width']):.3f}"
        assert numbers == [final(row), loss]


def judged():
    """The rows of the table of claims, with the training of the presets."""
    rows = json.loads((RESULTS / "CLAIMS.json").read_text("utf-8"))
    return [row for row in rows if row["reading"] == "chosen"]


def found(dataset, text):
    (row,) = (row for row in judged() if (row["dataset"], row["claim"]) == (dataset, text))
    return f"{row['number']:.1f} ± {row['half_width']:.1f}%"


def test_the_readme_says_what_the_table_of_claims_says():
    said = " ".join((ROOT / "README.md").read_text("utf-8").split())
    text = "J: steady schedules more samples than set expansion"
    more = [found("mnist", f"0.1 {text}"), found("cifar10", f"2 {text}")]
    assert (
        f"{more[0]} more samples than the paper's set expansion on MNIST and {more[1]} more on CIFAR" in said
    )
    over = found("mnist", "already the smallest V breaks it (worst device above it, V = 0.001)")
    assert f"spends {over} above its budget" in said
    verdicts = Counter(row["verdict"] for row in judged() if not row["ours"])
    counts = [f"{verdicts[name]} {words}" for name, words in WORDS.items() if verdicts[name]]
    whole = f"Of its {verdicts.total()} claims {', '.join(counts[:-1])} and {counts[-1]}"
    assert whole in said


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


@pytest.fixture
def kept(tmp_path):
    """A place that has what is kept of the runs, and what was asked for, but neither tables nor runs."""
    shutil.copytree(RESULTS / "evidence", tmp_path / "evidence")
    for manifest in (*RESULTS.glob("fig*.json"), RESULTS / sensitivity.MANIFEST):
        shutil.copy(manifest, tmp_path)
    return tmp_path


def test_every_figure_and_what_it_hinges_on_is_made_again_from_what_is_kept(kept):
    said = CliRunner().invoke(app, ["reproduce", "figures", "--results", str(kept)], catch_exceptions=False)
    *figures, page = said.output.splitlines()
    assert figures
    assert all("are written" in sentence for sentence in figures)
    assert page == f"{kept / sensitivity.PAGE} is written"
    assert (kept / sensitivity.PAGE).read_bytes() == (RESULTS / sensitivity.PAGE).read_bytes()
    made = [path.name for path in kept.glob("fig*.*") if path.suffix in (".csv", ".json")]
    assert sorted(made) == sorted(p.name for p in RESULTS.glob("fig*.*") if p.suffix in (".csv", ".json"))
    for name in made:
        assert (kept / name).read_bytes() == (RESULTS / name).read_bytes(), name
    pictures = [path.name for path in kept.glob("*.png")]
    assert sorted(pictures) == sorted(
        path.name for pattern in ("fig*.png", "sensitivity-*.png") for path in RESULTS.glob(pattern)
    )
    for name in pictures:
        assert look_alike(kept / name, RESULTS / name), name


def look_alike(one, other):
    """Letters and lines stand where they stood; how their edges are smoothed is left to the machine."""
    pixels, others = imread(one), imread(other)
    return pixels.shape == others.shape and (abs(pixels - others) > 0.5).any(axis=-1).mean() < 1e-4


def test_claims_are_judged_again_from_what_is_kept(kept):
    claims.write_claims(statements.all_claims(), kept)
    for name in ("CLAIMS.md", "CLAIMS.json"):
        assert (kept / name).read_bytes() == (RESULTS / name).read_bytes(), name


def test_the_hours_that_are_said_to_be_spent_are_those_of_the_runs():
    said = {}
    for (name,), *numbers in ((names_in(cell), *rest) for cell, *rest in rows_of(*SPENT)):
        said[name] = numbers
    spent = {}
    for path in (RESULTS / "evidence").glob("*.jsonl.gz"):
        with gzip.open(path) as lines:
            seconds = [json.loads(line)["numbers"]["wall_time_s"] for line in lines]
        spent[path.name.removesuffix(".jsonl.gz")] = [f"{len(seconds):,}", f"{sum(seconds) / 3600:.1f}"]
    assert said == spent
