"""Runs that are made longer, and what else differs between two calls that go on with one run."""

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import pmafl
from pmafl import runs
from pmafl.cli import app
from pmafl.display import watching
from pmafl.errors import InputError
from pmafl.runs import execution
from pmafl.settings import load
from tests.runs.directories import Stop, contents, run, stop_after


def test_a_finished_run_made_longer_is_the_long_run(tmp_path, tiny):
    run(tmp_path / "long", tiny | {"run.rounds": 8})
    run(tmp_path / "run", tiny)
    summary = runs.execute(tmp_path / "run", rounds=8)
    assert summary["rounds"] == 8
    assert contents(tmp_path / "run") == contents(tmp_path / "long")
    texts = [(tmp_path / name / "settings.toml").read_text() for name in ("run", "long")]
    assert texts[0] == texts[1]
    assert runs.execute(tmp_path / "run") == summary


def test_an_unfinished_run_can_be_made_longer(tmp_path, tiny, capsys):
    changes = tiny | {"run.evaluate_every": 4}
    run(tmp_path / "long", changes | {"run.rounds": 8})
    with pytest.raises(Stop):
        run(tmp_path / "run", changes, [stop_after(2)])
    runs.execute(tmp_path / "run", rounds=8)
    assert contents(tmp_path / "run") == contents(tmp_path / "long")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy.name": "steady"}, "policy steady plans with the number of rounds"),
        ({"policy.hard_budget": True}, "policy.hard_budget plans with the number of rounds"),
        ({"run.evaluate_every": 3}, "round 5 keeps its evaluation"),
    ],
)
def test_what_a_longer_run_does_differently_is_said(tmp_path, tiny, capsys, changes, said):
    run(tmp_path / "run", tiny | changes)
    runs.execute(tmp_path / "run", rounds=6)
    assert said in capsys.readouterr().err


def test_a_run_cannot_be_longer_than_its_trace_nor_shorter(tmp_path, tiny):
    np.save(tmp_path / "gains.npy", np.full((5, 6), 1e-8))
    run(tmp_path / "run", tiny | {"cell.gain_trace": str(tmp_path / "gains.npy")})
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    with pytest.raises(InputError, match=r"holds 5 rounds, but run\.rounds = 6"):
        runs.execute(tmp_path / "run", rounds=6)
    with pytest.raises(InputError, match=r"--rounds 3: .* is a run of 5 rounds; it can only be longer"):
        runs.execute(tmp_path / "run", rounds=3)
    with pytest.raises(InputError, match="rounds"):
        runs.execute(tmp_path / "run", rounds=10**9)
    after = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    assert after == before


def test_rounds_are_not_made_more_by_hand(tmp_path, tiny):
    run(tmp_path / "run", tiny)
    path = tmp_path / "run" / "settings.toml"
    path.write_text(path.read_text().replace("rounds = 5", "rounds = 6"))
    with pytest.raises(InputError, match=r"run.rounds = 6, but the run is one of 5 rounds; .* --rounds N"):
        runs.execute(tmp_path / "run")
    assert runs.execute(tmp_path / "run", rounds=6)["rounds"] == 6


@pytest.mark.heavy
def test_the_command_makes_a_run_longer(tmp_path):
    arguments = [
        "run",
        "mnist",
        "--set",
        "run.learning=none",
        "--rounds",
        "2",
        "--out",
        str(tmp_path / "run"),
    ]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    result = CliRunner().invoke(app, ["run", "--resume", str(tmp_path / "run"), "--rounds", "4"])
    assert "2 of 4 rounds are done" in result.output
    assert "round 3/4" in result.output
    assert len(runs.read_records(tmp_path / "run")) == 4


def test_a_resumed_run_shows_at_once_how_far_it_is(tmp_path):
    settings = load("mnist", {"run.learning": "none", "run.rounds": 60})
    with pytest.raises(Stop):
        runs.run(tmp_path / "run", settings, [stop_after(19)])
    console = Console(force_terminal=True, record=True, width=100)
    with watching(console) as watch:

        def begin(world, done):
            watch.begin(world, done)
            raise Stop

        with pytest.raises(Stop):
            runs.execute(tmp_path / "run", [watch], begin=begin)
    assert "20/60" in console.export_text()


def test_a_run_trains_with_one_thread_whatever_is_set(tmp_path, tiny):
    before = torch.get_num_threads()
    seen = []
    try:
        torch.set_num_threads(2)
        run(tmp_path / "run", tiny, [lambda *_: seen.append(torch.get_num_threads())])
        assert seen == [1] * 5
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_run_goes_on_with_the_threads_it_began_with(tmp_path, tiny, capsys, monkeypatch):
    """Runs have one thread; an earlier version's may have had more."""
    seen = []
    with monkeypatch.context() as earlier:
        earlier.setattr(execution, "THREADS", 2)
        with pytest.raises(Stop):
            run(tmp_path / "run", tiny, [stop_after(1)])
    before = torch.get_num_threads()
    runs.execute(tmp_path / "run", [lambda *_: seen.append(torch.get_num_threads())])
    assert seen == [2, 2, 2]
    assert torch.get_num_threads() == before
    assert "goes on with 2 threads, as it began" in capsys.readouterr().err


def test_paths_may_be_text(tmp_path, tiny):
    pmafl.create_run(str(tmp_path / "run"), load("mnist", tiny))
    summary = pmafl.execute_run(str(tmp_path / "run"))
    assert runs.read_summary(str(tmp_path / "run")) == summary
    assert len(runs.read_records(str(tmp_path / "run"))) == 5
