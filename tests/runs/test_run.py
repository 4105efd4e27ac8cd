"""A run directory that is opened: what a person gets of it, and that each part is read or built once."""

import sys
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

import pmafl
from pmafl import data, runs, settings, world
from pmafl.cli import app
from pmafl.errors import InputError
from pmafl.runs import records


def set_options(overrides):
    return [text for key, value in overrides.items() for text in ("--set", f"{key}={value}")]


@pytest.fixture
def calls(monkeypatch):
    """How often each costly function is called, wherever it was imported to."""
    counted = {}

    def count(home, name):
        real = getattr(home, name)
        counted[name] = 0

        def counting(*args, **kwargs):
            counted[name] += 1
            return real(*args, **kwargs)

        for module in [module for key, module in sys.modules.items() if key.startswith("pmafl")]:
            if isinstance(module, ModuleType) and vars(module).get(name) is real:
                monkeypatch.setattr(module, name, counting)

    for home, name in [
        (settings, "load"),
        (settings, "build"),
        (world, "build_world"),
        (data, "split_data"),
        (records, "read_records"),
    ]:
        count(home, name)
    return counted


ONCE = {"load": 1, "build": 1, "build_world": 1, "split_data": 1, "read_records": 1}


def test_a_run_loads_builds_splits_and_reads_once(tiny, tmp_path, calls):
    result = CliRunner().invoke(app, ["run", "mnist", *set_options(tiny), "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "plots" / "overview.png").is_file()
    assert calls == ONCE


def test_so_does_one_that_goes_on(tiny, tmp_path, calls):
    def stop(world, record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.run(tmp_path / "run", settings.load("mnist", tiny), [stop])
    calls.update(dict.fromkeys(calls, 0))
    result = CliRunner().invoke(app, ["run", "--resume", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert calls == ONCE


def test_and_a_finished_one_is_neither_trained_nor_given_its_data(tiny, tmp_path, calls):
    runs.run(tmp_path / "run", settings.load("mnist", tiny))
    calls.update(dict.fromkeys(calls, 0))
    assert CliRunner().invoke(app, ["run", "--resume", str(tmp_path / "run")]).exit_code == 0
    assert calls == ONCE


def test_what_a_person_gets_of_a_run(tiny, tmp_path):
    asked = pmafl.load_settings("mnist", tiny)
    summary = runs.run(tmp_path / "run", asked)
    opened = pmafl.open_run(str(tmp_path / "run"))
    assert repr(opened) == f"<Run {tmp_path / 'run'}>"
    assert opened.settings == runs.read_settings(tmp_path / "run")
    assert opened.summary == summary
    assert opened.rows == runs.read_records(tmp_path / "run")
    assert len(opened.records) == 5
    assert opened.world.task is not None
    np.testing.assert_array_equal(opened.budget_j, opened.world.fleet.budget_j)
    assert pmafl.open_run(opened) is opened


def test_the_run_that_was_made_holds_what_one_that_is_opened_reads(tiny, tmp_path):
    made = runs.Run(tmp_path / "run")
    runs.run(made, pmafl.load_settings("mnist", tiny))
    opened = pmafl.open_run(tmp_path / "run")
    assert made.settings == opened.settings == made.world.settings
    assert (made.rows, made.summary) == (opened.rows, opened.summary)


def test_records_are_a_table_where_pandas_is_installed(tiny, tmp_path, monkeypatch):
    runs.run(tmp_path / "run", pmafl.load_settings("mnist", tiny))
    pandas = ModuleType("pandas")
    pandas.DataFrame = lambda rows: ("table", rows)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    opened = pmafl.open_run(tmp_path / "run")
    assert opened.records == ("table", opened.rows)
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not there
    opened = pmafl.open_run(tmp_path / "run")
    assert opened.records is opened.rows


def test_a_run_that_goes_on_is_not_seen_as_it_was(tmp_path):
    wireless = {"run.learning": "none", "run.rounds": 2}
    runs.create(tmp_path / "run", pmafl.load_settings("mnist", wireless))
    opened = pmafl.open_run(tmp_path / "run")
    assert opened.summary is None
    pmafl.execute_run(opened)
    assert opened.summary["rounds"] == len(opened.records) == 2
    pmafl.execute_run(opened, rounds=3)
    assert opened.settings.run.rounds == opened.summary["rounds"] == len(opened.records) == 3


def test_what_is_no_run_is_refused_when_it_is_opened(tmp_path):
    with pytest.raises(InputError, match="is not a run directory: it has no settings"):
        pmafl.open_run(tmp_path)


def test_settings_that_cannot_run_leave_no_directory(tiny, tmp_path):
    with pytest.raises(InputError):
        runs.run(tmp_path / "run", pmafl.load_settings("mnist", tiny | {"data.dataset": "missing.npz"}))
    assert not (tmp_path / "run").exists()
