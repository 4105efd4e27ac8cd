import json
import shlex
import shutil

import pytest
from typer.testing import CliRunner

from pmafl.cli import app
from pmafl.errors import InputError
from tests.processes import one_after_another


@pytest.fixture
def amount(small):
    """Options for figures of seconds."""
    words = ["--seeds", "1", "--wireless-seeds", "1", "--rounds", "2", "--workers", "1"]
    return words + [word for key, value in small.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr("pmafl.comparison.run_tasks", one_after_another)


def invoke(*words):
    return CliRunner().invoke(app, ["reproduce", *words], catch_exceptions=False)


def test_a_figure_is_made_and_its_own_command_makes_it_again(tmp_path, amount):
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert invoke("fig2", "--dataset", "mnist", *amount, *places).exit_code == 0
    known = json.loads((tmp_path / "results" / "fig2-mnist.json").read_text())
    before = (tmp_path / "results" / "fig2-mnist.csv").read_bytes()
    runs = sorted((tmp_path / "runs" / "runs").iterdir())
    again = shlex.split(known["command"])[2:]
    assert invoke(*again, *places).exit_code == 0
    assert sorted((tmp_path / "runs" / "runs").iterdir()) == runs
    assert (tmp_path / "results" / "fig2-mnist.csv").read_bytes() == before


def test_results_of_a_larger_scale_are_kept(tmp_path, monkeypatch, amount):
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "results" / "fig2-mnist.json"
    kept.parent.mkdir()
    kept.write_text(json.dumps({"rounds": 100}))
    result = invoke("fig2", *amount)
    assert "results/fig2-mnist.json was made with 100 rounds, more than now, and is kept" in result.output
    assert (tmp_path / "runs" / "reproduce" / "results" / "fig2-mnist.png").exists()
    assert list(kept.parent.iterdir()) == [kept]
    with pytest.raises(InputError, match="more than now; give another --results"):
        invoke("fig2", "--results", "results", *amount)


def test_a_figure_of_another_data_set_is_refused():
    with pytest.raises(InputError, match="fig4 has nothing for --dataset mnist"):
        invoke("fig4", "--dataset", "mnist")


@pytest.mark.parametrize("what", ["claims", "figures"])
def test_what_is_made_from_kept_runs_needs_some(tmp_path, what):
    with pytest.raises(InputError, match="evidence: holds no runs; make a figure first"):
        invoke(what, "--results", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("what", "option", "value"),
    [
        ("claims", "--seeds", "3"),
        ("figures", "--only", "pma*"),
        ("figures", "--set", "run.rounds=3"),
        ("sensitivity", "--dataset", "mnist"),
    ],
)
def test_options_that_would_change_nothing_are_refused(tmp_path, monkeypatch, what, option, value):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"{option} changes nothing in {what}; leave it out"):
        invoke(what, option, value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("what", "known"), [("fig3", "pma, 10 of 100 devices"), ("sensitivity", "ocean, mnist")]
)
def test_patterns_that_match_nothing_are_refused_with_what_there_is(tmp_path, monkeypatch, what, known):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"--only 'pmma.*' matches nothing of .*'{known}'"):
        invoke(what, "--only", "pmma*")
    with pytest.raises(InputError, match="leaves nothing to run"):
        invoke(what, "--only", known, "--only", "!*")
    assert list(tmp_path.iterdir()) == []


def test_only_some_curves_are_run_and_drawn_and_figures_are_drawn_again(tmp_path, amount):
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    some = ["--only", "pma, *", "--only", "!*n = 4"]
    assert invoke("fig2", "--dataset", "mnist", *amount, *some, *places).exit_code == 0
    table = tmp_path / "results" / "fig2-mnist-final.csv"
    before = table.read_bytes()
    assert before.count(b"n = ") == 4
    shutil.rmtree(tmp_path / "runs")
    table.unlink()
    again = invoke("figures", "--results", str(tmp_path / "results"))
    assert "fig2-mnist.png and its tables are written" in again.output
    assert table.read_bytes() == before


def test_without_seeds_nothing_learns(tmp_path, amount):
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert invoke("fig7", *amount, "--seeds", "0", *places).exit_code == 0
    known = json.loads((tmp_path / "results" / "fig7-mnist.json").read_text())
    assert "--seeds 0" in known["command"]
    assert "pmafl" in known["versions"]
    assert "set-expansion,V = 0.1" in (tmp_path / "results" / "fig7-mnist-wireless.csv").read_text()
    assert invoke("claims", "--results", str(tmp_path / "results")).exit_code == 0
    assert "no run of set-expansion, V = 0.1 is done" in (tmp_path / "results" / "CLAIMS.md").read_text()
    with pytest.raises(InputError, match="fig3 has nothing for --dataset mnist --reading chosen --seeds 0"):
        invoke("fig3", *amount, "--seeds", "0", *places)


def test_results_that_cannot_be_written_show_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a directory to write in"):
        invoke("fig2", "--out", str(tmp_path / "runs"), "--results", str(tmp_path / "file"))
    assert not (tmp_path / "runs").exists()
