"""Files and plug-ins are found from any folder: by the file that names them, and by a run directory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pmafl
from pmafl import paths, runs
from pmafl.errors import InputError
from pmafl.paths import kept
from pmafl.rounds import simulate
from pmafl.settings import load, parse
from pmafl.world import wireless_world
from tests.program import pmafl as pmafl_here

SETTINGS = """
extends = "mnist"
[cell]
gain_trace = "inputs of mine/trace.npy"
[data]
dataset = "own.npz"
[fleet]
devices = 4
[policy]
name = "my_policies.picky:first_two"
[learning]
model = "mlp"
[run]
rounds = 3
learning = "none"
"""
POLICY = """
import numpy as np
from pmafl.scheduling import allocate_given

def first_two(problem, rng):
    return allocate_given(problem, np.arange(problem.devices) < 2, "first-two")
"""


@pytest.fixture
def project(tmp_path):
    """A folder with settings, a trace, a data set and a policy, none of which is where tests run."""
    folder = tmp_path / "project"
    (folder / "inputs of mine").mkdir(parents=True)
    (folder / "my_policies").mkdir()
    (folder / "my_policies" / "picky.py").write_text(POLICY)
    (folder / "experiment.toml").write_text(SETTINGS)
    rng = np.random.default_rng(0)
    np.save(folder / "inputs of mine" / "trace.npy", rng.exponential(1e-7, (3, 4)))
    np.savez(folder / "own.npz", x=rng.normal(size=(40, 8)), y=np.arange(40) % 2)
    return folder


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A working directory with nothing in it."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


@pytest.fixture
def program(elsewhere, monkeypatch):
    """Runs the program as if it had just started: it knows no plug-ins, and no folders that have some."""
    known = list(sys.path)

    def run(*arguments, folder=elsewhere):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", list(known))
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_policies"]:
            monkeypatch.delitem(sys.modules, name)
        return pmafl_here(*arguments)

    return run


@pytest.fixture
def process(elsewhere):
    """Runs the program in a process of its own."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "pmafl", *map(str, arguments)],
            cwd=elsewhere,
            env=os.environ | {"PYTHONPATH": str(Path(pmafl.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_paths_of_a_file_start_at_the_file(project, elsewhere):
    settings = load(project / "experiment.toml")
    assert settings.cell.gain_trace == str(project / "inputs of mine" / "trace.npy")
    assert settings.data.dataset == str(project / "own.npz")
    assert settings.run.plugin_path == (str(project),)
    assert len(list(simulate(settings))) == 3


def test_a_relative_name_of_the_file_itself_changes_nothing(project, monkeypatch):
    monkeypatch.chdir(project.parent)
    assert load("project/experiment.toml") == load(project / "experiment.toml")


def test_paths_of_overrides_start_at_the_working_directory(project, elsewhere):
    np.save("other.npy", np.ones((3, 4)))
    changes = {"cell.gain_trace": "other.npy", "data.directory": "data", "data.dataset": "mnist"}
    settings = load(project / "experiment.toml", changes)
    assert settings.cell.gain_trace == str(elsewhere / "other.npy")
    assert settings.data.directory == str(elsewhere / "data")
    assert load(
        "mnist", {"cell": load("mnist").cell.model_dump() | {"gain_trace": "x.npy"}}
    ).cell.gain_trace == str(elsewhere / "x.npy")


def test_each_file_of_a_chain_has_its_own_paths(project, elsewhere):
    (elsewhere / "deeper").mkdir()
    (elsewhere / "deeper" / "top.toml").write_text(
        'extends = "../../project/experiment.toml"\n[data]\ndataset = "mine.npz"\n'
    )
    settings = load("deeper/top.toml")
    assert settings.cell.gain_trace == str(project / "inputs of mine" / "trace.npy")
    assert settings.data.dataset == str(elsewhere / "deeper" / "mine.npz")
    assert settings.run.plugin_path == (str(project),)


def test_a_data_set_starts_at_the_directory_of_data_whoever_sets_it(project, elsewhere):
    settings = load(project / "experiment.toml", {"data.directory": str(project)})
    assert (settings.data.directory, settings.data.dataset) == (str(project), "own.npz")
    assert wireless_world(settings).fleet.devices == 4


def test_a_home_directory_is_found(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert load("mnist", {"cell.gain_trace": "~/trace.npy"}).cell.gain_trace == "/home/somebody/trace.npy"


def test_printed_settings_mean_the_same_anywhere(project, elsewhere, monkeypatch):
    settings = load(project / "experiment.toml")
    monkeypatch.chdir("/")
    assert parse(settings.to_toml()) == settings


def test_only_a_plug_in_that_is_there_adds_its_folder(project, elsewhere):
    assert load("mnist").run.plugin_path == ()
    assert load("mnist", {"learning.model": "torch.nn:Linear"}).run.plugin_path == ()
    (elsewhere / "here.py").write_text("")
    assert load("mnist", {"policy.name": "here:policy"}).run.plugin_path == (str(elsewhere),)
    both = load(project / "experiment.toml", {"learning.model": "here:model"})
    assert both.run.plugin_path == (str(project), str(elsewhere))


def test_a_folder_of_plug_ins_may_be_named(project, elsewhere):
    (project / "policies in here").mkdir()
    (project / "policies in here" / "named.py").write_text(POLICY)
    text = SETTINGS.replace("my_policies.picky", "named") + 'plugin_path = ["policies in here"]\n'
    (project / "named.toml").write_text(text)
    settings = load(project / "named.toml")
    assert settings.run.plugin_path == (str(project / "policies in here"),)
    assert [record.scheduled for record in simulate(settings)] == [[0, 1]] * 3


def test_a_working_directory_that_is_gone_is_one_line(elsewhere):
    elsewhere.rmdir()
    with pytest.raises(InputError, match="working directory that is gone"):
        load("mnist", {"cell.gain_trace": "trace.npy"})


def test_a_run_directory_runs_after_its_inputs_are_gone_and_it_was_moved(project, elsewhere, tmp_path):
    runs.create(tmp_path / "run", load(project / "experiment.toml"))
    text = (tmp_path / "run" / "settings.toml").read_text()
    assert 'gain_trace = "inputs/trace.npy"' in text
    assert 'dataset = "inputs/own.npz"' in text
    (project / "own.npz").unlink()
    shutil.rmtree(project / "inputs of mine")
    (tmp_path / "run").rename(tmp_path / "moved")
    assert runs.execute(tmp_path / "moved")["rounds"] == 3


def test_large_inputs_stay_where_they_are(project, elsewhere, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "LARGEST_COPY_BYTES", 300)
    settings = load(project / "experiment.toml")
    runs.create(tmp_path / "run", settings)
    kept_here = runs.read_settings(tmp_path / "run")
    assert kept_here.cell.gain_trace == str(tmp_path / "run" / "inputs" / "trace.npy")
    assert kept_here.data.dataset == settings.data.dataset
    assert [path.name for path in (tmp_path / "run" / "inputs").iterdir()] == ["trace.npy"]


def test_settings_are_compared_with_those_of_a_run_by_the_content_of_their_files(
    project, elsewhere, tmp_path
):
    settings = load(project / "experiment.toml")
    runs.create(tmp_path / "run", settings)
    assert runs.read_settings(tmp_path / "run") == kept(settings, tmp_path / "run")
    np.save(project / "inputs of mine" / "trace.npy", np.full((3, 4), 1e-7))
    assert runs.read_settings(tmp_path / "run") != kept(settings, tmp_path / "run")


def test_run_and_resume_work_from_any_folder(project, program, elsewhere, tmp_path):
    done = program("run", project / "experiment.toml", "--out", tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "run" / "summary.json").unlink()
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    again = program("run", "--resume", tmp_path / "run", folder="/")
    assert again.returncode == 0
    assert "rounds 1 to 3 are computed again" in again.stderr
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


def test_the_plug_in_of_a_run_comes_before_one_of_the_same_name_in_the_working_directory(
    project, program, elsewhere, tmp_path
):
    runs.create(tmp_path / "run", load(project / "experiment.toml"))
    (elsewhere / "my_policies").mkdir()
    (elsewhere / "my_policies" / "picky.py").write_text(POLICY.replace("< 2", "< 1"))
    done = program("run", "--resume", tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert [record["scheduled"] for record in runs.read_records(tmp_path / "run")] == [[0, 1]] * 3


@pytest.mark.heavy
def test_workers_of_a_comparison_find_everything(project, process, elsewhere):
    done = process(
        *("compare", project / "experiment.toml", "--vary", "policy.tradeoff=0.1,0.2"),
        *("--seeds", "1", "--workers", "1", "--out", "compared"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (elsewhere / "compared" / "table.csv").is_file()


@pytest.mark.heavy
def test_workers_on_ray_find_everything(project, process, elsewhere):
    pytest.importorskip("ray")
    done = process(
        *("compare", project / "experiment.toml", "--vary", "policy.tradeoff=0.1,0.2"),
        *("--seeds", "1", "--engine", "ray", "--out", "compared"),
    )
    assert done.returncode == 0, done.stderr
    assert (elsewhere / "compared" / "table.csv").is_file()
