"""The leaderboard: its numbers are those of its runs, and what is kept is enough to make it again."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pmafl import comparison, runs
from pmafl.cli import app
from pmafl.errors import InputError
from pmafl.experiments import leaderboard, standings
from pmafl.experiments.archive import COSTS, Archive, Kept
from pmafl.rounds import energy_of
from pmafl.world import wireless_world
from tests.conftest import tiny_overrides

METHODS = ["pma", "fine-tune", "fedprox:proximal_weight=0.5"]


@pytest.fixture(scope="module")
def small(tiny_data):
    changes = {**tiny_overrides(tiny_data), "run.rounds": 3, "learning.iterations": 2}
    return [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]


def invoke(*words):
    return CliRunner().invoke(app, ["leaderboard", "mnist", *words], catch_exceptions=False)


@pytest.fixture(scope="module")
def made(small, tmp_path_factory):
    """Two seeds of three methods, and where they are."""
    place = tmp_path_factory.mktemp("board")
    words = [*small, "--out", str(place / "runs"), "--results", str(place / "results"), "--workers", "1"]
    done = invoke("--algorithms", ",".join(METHODS), "--seeds", "2", *words)
    assert done.exit_code == 0
    return place, words


def table(place):
    text = (place / "results" / "leaderboard-mnist.csv").read_text("utf-8")
    return {line["method"]: line for line in csv.DictReader(io.StringIO(text))}


def by_method(place):
    """Directories of the runs by method, in the order of seeds."""
    found = {}
    for path in (place / "runs" / "runs").iterdir():
        settings = runs.read_settings(path)
        found.setdefault(settings.learning.algorithm, {})[settings.run.seed] = path
    return {name: [paths[seed] for seed in sorted(paths)] for name, paths in found.items()}


def test_all_files_are_written_and_name_every_method(made):
    place, _ = made
    stem = place / "results" / "leaderboard-mnist"
    for ending in ("md", "csv", "tex", "json", "png", "pdf", "svg"):
        assert stem.with_suffix(f".{ending}").stat().st_size > 300
    assert len(comparison.read_grid(place / "runs")) == 2 * len(METHODS)
    page = stem.with_suffix(".md").read_text("utf-8")
    assert all(f"| {name} |" in page.replace("**", "") for name in METHODS)
    assert "pmafl leaderboard mnist --seeds 2" in page
    assert "policy `set-expansion`" in page
    latex = stem.with_suffix(".tex").read_text("utf-8")
    assert latex.count(r"\\") == 2 * (1 + len(METHODS))
    assert r"proximal\_weight" in latex
    assert not re.search(r"(?<!\\)%", latex), "a comment in LaTeX"


def test_numbers_are_those_of_the_runs_and_tuning_is_charged_once(made):
    place, _ = made
    for name, line in ((method.partition(":")[0], line) for method, line in table(place).items()):
        energy_j, bits, time_s, accuracy = [], [], [], []
        for path in by_method(place)[name]:
            rows, world = runs.read_records(path), wireless_world(runs.read_settings(path))
            fleet, cell = world.fleet, world.settings.cell
            work = world.costs.tuning_iterations * fleet.samples * fleet.cycles_per_sample
            tuning_j = world.settings.fleet.energy_coefficient * work**3 / cell.deadline_s**2
            assert (name == "fine-tune") == bool(tuning_j.any())
            energy_j.append(sum(energy_of(row).sum() for row in rows) / 6 + tuning_j.mean())
            bits.append(sum(len(row["scheduled"]) for row in rows) * world.costs.upload_bits / 6)
            rounds_s = sum(max(np.add(row["compute_time_s"], row["upload_time_s"])) for row in rows)
            time_s.append(rounds_s + (cell.deadline_s if name == "fine-tune" else 0))
            accuracy.append(100 * rows[-1]["accuracy"])
        assert float(line["energy_j_mean"]) == pytest.approx(np.mean(energy_j), rel=1e-5)
        assert float(line["uploaded_bits_mean"]) == pytest.approx(np.mean(bits), rel=1e-5)
        assert float(line["time_s_mean"]) == pytest.approx(np.mean(time_s), rel=1e-5)
        assert float(line["accuracy_mean"]) == pytest.approx(np.mean(accuracy), rel=1e-5)


def test_everything_is_made_again_from_what_is_kept(made, tmp_path):
    place, words = made
    shutil.copytree(place / "results", tmp_path / "results")
    moved = [word.replace(str(place), str(tmp_path)) for word in words]
    before = {path.name: path.read_bytes() for path in (place / "results").glob("leaderboard*")}
    for path in (tmp_path / "results").glob("leaderboard*"):
        path.unlink()
    assert invoke("--algorithms", ",".join(METHODS), "--seeds", "2", *moved).exit_code == 0
    after = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("leaderboard*")}
    assert after == before
    assert not (tmp_path / "runs").exists(), "nothing was run"


def test_a_smaller_one_does_not_replace_a_larger(made):
    _place, words = made
    for fewer, reason in (
        (["--algorithms", "pma"], "has fine-tune too"),
        (["--algorithms", ",".join(METHODS), "--seeds", "1"], "was made with 2 seeds and 3 rounds"),
        (
            ["--algorithms", ",".join(METHODS), "--seeds", "2", "--set", "cell.deadline_s=3"],
            "another overrides",
        ),
    ):
        with pytest.raises(InputError, match=f"{reason}.*give another --results"):
            invoke(*fewer, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algorithms", "pma,fedprx"], "no such algorithm; did you mean 'fedprox'"),
        (["--algorithms", "pma,ditto:wieght=1"], "was given the options wieght; it has weight"),
        (["--algorithms", "pma,ditto:weight"], "ditto:weight"),
        (["--algorithms", "pma,ditto:weight="], "must be a name, or a name with options"),
        (["--algorithms", "pma,ditto:weight=many"], "must be a number"),
        (["--algorithms", "pma,,ditto"], "must be names between commas"),
        (["--algorithms", "pma,ditto,pma"], "names 'pma' twice"),
        (["--set", "learning.options.weight=1"], "--algorithms chooses methods and their options"),
        (["--set", "run.wireless=none"], "run.wireless must be 'full'"),
        (["--policy", "unifrom"], "did you mean 'uniform'"),
        (["--policy", "uniform:cout=3"], "was given the options cout; it has count"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_run(words, said, small, tmp_path):
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    with pytest.raises(InputError) as error:
        invoke(*words, *small, *places)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def make_board(methods, tmp_path, policy=None, **changes):
    archive = leaderboard.open_archive(tmp_path)
    return leaderboard.plan("mnist", changes, methods, 2, policy, tmp_path / "runs", archive)


def test_a_method_that_no_device_can_finish_is_left_out_with_its_reason(tmp_path):
    board = make_board(["pma", "pfedme"], tmp_path, **{"cell.deadline_s": 1.0})
    assert {leaderboard.method_of(job) for job in board.jobs} == {"pma"}
    assert "no device can take part" in board.unfit["pfedme"]
    with pytest.raises(InputError, match="no device can take part"):
        make_board(["pfedme"], tmp_path, **{"cell.deadline_s": 1.0})


def test_options_of_the_settings_belong_to_what_they_name(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(
        'extends = "mnist"\n[learning]\nalgorithm = "ditto"\noptions = {weight = 0.5}\n'
        '[policy]\nname = "uniform"\noptions = {count = 7}\n'
    )
    archive = leaderboard.open_archive(tmp_path)
    board = leaderboard.plan(str(path), {}, ["ditto", "fedavg"], 1, None, tmp_path / "runs", archive)
    assert board.methods == ("ditto:weight=0.5", "fedavg")
    assert [job.settings.learning.options for job in board.jobs] == [{"weight": 0.5}, {}]
    assert board.facts()["policy"] == "uniform:count=7"
    assert board.name == "own"
    other = leaderboard.plan(str(path), {}, ["fedavg"], 1, "dual", tmp_path / "runs", archive)
    assert other.settings.policy.options == {}
    assert other.name == "own-dual"


def kept(accuracy, energy_j, **numbers):
    """A run of three rounds on two devices."""
    columns = {
        "accuracy": accuracy,
        "worst_tenth_accuracy": accuracy,
        "loss": [1.0] * 3,
        "mean_energy_j": energy_j,
        "round_s": [1.0, 2.0, 3.0],
        "uploaded_bits": [10.0, 20.0, 30.0],
    }
    return Kept("key", {}, {}, {"scheduled_devices_per_round": 1.0, **numbers}, "", columns)


def test_what_a_part_of_the_best_took_is_until_it_was_first_measured():
    known = [kept([0.2, 0.6, 0.5], [1.0, 2.0, 3.0]), kept([0.2, 0.3, 0.4], [1.0, 1.0, 1.0])]
    found = leaderboard._reached(known, 55.0, 2)
    assert found["energy_j"][0] == 4
    assert found["uploaded_bits"][0] == 15
    assert found["time_s"][0] == 3
    assert np.isnan([found[name][1] for name in leaderboard.SPENT]).all()
    tuned = leaderboard._reached(
        [kept([0.2, 0.6, 0.5], [1.0, 2.0, 3.0], tuning_energy_j=5, tuning_s=7)], 55.0, 2
    )
    assert tuned["energy_j"] == [9]
    assert tuned["time_s"] == [10]
    assert tuned["uploaded_bits"] == [15]


def test_a_target_that_not_all_seeds_reach_has_no_mean():
    assert standings.reaching(np.array([np.nan, np.nan])) == "never"
    assert standings.reaching(np.array([1.0, np.nan, 2.0])) == "2 of 3 seeds"
    assert standings.reaching(np.array([1.0, 1.0])) == "1.00 ± 0.00"


def test_nothing_beats_a_method_that_is_more_accurate_or_costs_less():
    places = {"good": (90, 5), "cheap": (80, 3), "twin": (90, 5), "beaten": (80, 4), "worse": (89, 5)}
    numbers = {
        name: {"accuracy": np.array([accuracy]), "energy_j": np.array([energy])}
        for name, (accuracy, energy) in places.items()
    }
    unbeaten = {name for name in numbers if leaderboard._unbeaten(name, numbers)}
    assert unbeaten == {"good", "cheap", "twin"}


def test_what_was_kept_without_costs_does_not_count(made, tmp_path):
    place, _ = made
    path = Archive(place / "results").folder / "leaderboard-mnist.jsonl.gz"
    board = json.loads((place / "results" / "leaderboard-mnist.json").read_text())
    assert board["methods"] == METHODS
    (tmp_path / "evidence").mkdir()
    import gzip

    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    for line in lines:
        for name in COSTS:
            del line["columns"][name]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "evidence" / "fig.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    job = comparison.Job((), 1, None, Path("nowhere") / lines[0]["key"])
    assert Archive(tmp_path).find(job) is not None
    assert Archive(tmp_path, needed=COSTS).find(job) is None
