"""The power fails at any moment: the run goes on, to the same end, and only unsaved rounds are lost."""

import contextlib
import random

import pytest

from pmafl import files, runs
from pmafl.runs import execution
from pmafl.settings import load
from tests.runs.directories import commit_every_round, contents, run
from tests.runs.power import Power, PowerCut


@pytest.fixture
def power(monkeypatch):
    """Supplies a directory with power that fails after a number of calls; None: never."""

    def supply(root, cut_after=None, seed=0):
        root.mkdir(exist_ok=True)
        supplied = Power(root, cut_after, seed)
        monkeypatch.setattr(files, "os", supplied)
        return supplied

    yield supply
    monkeypatch.undo()


def cut(supply, directory, calls, seed, work):
    """Work until the power fails, and let it come back."""
    supplied = supply(directory.parent, calls, seed)
    with contextlib.suppress(PowerCut):
        work()
    supplied.come_back()


@pytest.mark.heavy
@pytest.mark.parametrize("every", [1, 2])
def test_thirty_power_cuts_of_a_run_change_nothing(tmp_path, tiny, power, monkeypatch, every, capsys):
    commit_every_round(monkeypatch)
    settings = load("mnist", tiny | {"run.checkpoint_every": every})
    runs.run(tmp_path / "whole" / "run", settings)
    counted = power(tmp_path / "counted")
    runs.run(tmp_path / "counted" / "run", settings)
    moments = random.Random(every)
    for moment in range(30):
        directory = tmp_path / f"cut-{moment}" / "run"
        directory.parent.mkdir()
        first = moments.randint(1, counted.calls - 1)
        cut(power, directory, first, moment, lambda d=directory: runs.run(d, settings))
        cut(
            power, directory, moments.randint(1, counted.calls), moment,
            lambda d=directory: runs.run(d, settings, again=True),
        )  # fmt: skip
        power(directory.parent)
        runs.run(directory, settings, again=True)
        assert contents(directory) == contents(tmp_path / "whole" / "run")
        assert runs.read_summary(directory)["rounds"] == 5


def test_no_committed_round_is_computed_again(tmp_path, tiny, power, monkeypatch):
    """Each checkpoint that was ever durable stays one to go on from."""
    commit_every_round(monkeypatch)
    settings = load("mnist", tiny)
    for calls in range(12, 100, 9):
        directory = tmp_path / f"cut-{calls}" / "run"
        directory.parent.mkdir()
        committed, saved = [0], execution.Journal.commit

        def commit(journal, committed=committed, saved=saved):
            state = journal._uncommitted
            saved(journal)
            committed.append(state.round if state else committed[-1])

        monkeypatch.setattr(execution.Journal, "commit", commit)
        cut(power, directory, calls, calls, lambda d=directory: runs.run(d, settings))
        monkeypatch.setattr(execution.Journal, "commit", saved)
        power(directory.parent)
        if (directory / "settings.toml").exists():
            assert runs.recover(directory, runs.identify(directory)).round >= committed[-1]


@pytest.mark.heavy
def test_a_run_that_is_made_longer_survives_a_power_cut(tmp_path, tiny, power, monkeypatch):
    commit_every_round(monkeypatch)
    run(tmp_path / "whole" / "run", tiny | {"run.rounds": 8})
    for calls in range(1, 30, 2):
        directory = tmp_path / f"cut-{calls}" / "run"
        monkeypatch.setattr(files, "os", __import__("os"))
        run(directory, tiny)
        cut(power, directory, calls, calls, lambda d=directory: runs.execute(d, rounds=8))
        power(directory.parent)
        runs.execute(directory, rounds=8)
        assert contents(directory) == contents(tmp_path / "whole" / "run")
