import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from pmafl import files, runs
from pmafl.display import summary_table
from pmafl.errors import InputError
from pmafl.plots import plot_run
from pmafl.settings import load
from tests.conftest import tiny_overrides
from tests.runs.directories import Stop, commit_every_round, contents, run, stop_after


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_data):
    """A whole run of the small problem, and the same stopped after 3 and 4 of its 5 rounds."""
    place, overrides = tmp_path_factory.mktemp("made"), tiny_overrides(tiny_data)
    run(place / "whole", overrides)
    for rounds in (3, 4):
        with pytest.raises(Stop):
            run(place / f"stopped after {rounds}", overrides, [stop_after(rounds - 1)])
    return place


def test_training_that_diverges_is_recorded_and_shown(tmp_path, tiny):
    rates = {"learning.extractor_rate": 1e6, "learning.predictor_rate": 1e6}
    summary = run(tmp_path / "run", tiny | rates)
    assert summary["final_loss"] is None
    assert 0 <= summary["final_accuracy"] < 0.9
    console = Console(record=True, width=100)
    console.print(summary_table(summary))
    shown = console.export_text()
    assert "the training diverged" in shown
    assert f"(standard deviation over devices {summary['accuracy_std_over_devices']:.2%})" in shown
    plot_run(tmp_path / "run")


def test_a_run_directory_holds_what_it_promises(tmp_path, tiny):
    summary = run(tmp_path / "run", tiny)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"settings.toml", "rounds.jsonl", "summary.json", "checkpoint"} <= names
    promised = {
        "final_accuracy", "best_accuracy", "accuracy_std_over_devices", "final_loss", "rounds", "seed",
        "versions", "scheduled_samples_per_round", "scheduled_devices_per_round", "energy_per_device_round_j",
        "max_energy_per_device_round_j", "budget_j", "wall_time_s",
    }  # fmt: skip
    assert promised <= summary.keys()
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    assert not list((tmp_path / "run").rglob("*.pkl"))


def test_the_summary_agrees_with_the_records(made):
    summary = runs.read_summary(made / "whole")
    records = runs.read_records(made / "whole")
    energy_j = sum(sum(r["compute_energy_j"]) + sum(r["upload_energy_j"]) for r in records)
    assert summary["energy_per_device_round_j"] == pytest.approx(energy_j / (6 * 5))
    assert summary["final_accuracy"] == records[-1]["accuracy"]
    assert summary["best_accuracy"] == max(r["accuracy"] for r in records)
    samples = sum(r["scheduled_samples"] for r in records)
    assert summary["scheduled_samples_per_round"] == pytest.approx(samples / 5)


@pytest.mark.parametrize("algorithm", ["pma", "fedavg", "local"])
def test_the_same_settings_give_the_same_run_to_the_bit(tmp_path, tiny, algorithm):
    tiny = tiny | {"learning.algorithm": algorithm}
    run(tmp_path / "one", tiny)
    runs.create(tmp_path / "two", load(tmp_path / "one"))  # its settings.toml fed back
    runs.execute(tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("algorithm", ["pma", "fedavg", "local"])
@pytest.mark.parametrize("every", [1, 2])
def test_an_interrupted_run_goes_on_to_the_same_end(tmp_path, tiny, algorithm, every):
    tiny = tiny | {"learning.algorithm": algorithm, "run.checkpoint_every": every}
    run(tmp_path / "whole", tiny)
    with pytest.raises(Stop):
        run(tmp_path / "parts", tiny, [stop_after(0)])
    with pytest.raises(Stop):
        runs.execute(tmp_path / "parts", [stop_after(2)])
    runs.execute(tmp_path / "parts")
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "missing heads", "all"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(tmp_path, made, damage, capsys):
    shutil.copytree(made / "stopped after 4", tmp_path / "hurt")
    folder = tmp_path / "hurt" / "checkpoint"
    newest = sorted(folder.glob("state-*"))[-1]
    content = bytearray(newest.read_bytes())
    if damage == "truncated":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[-5] ^= 1
        newest.write_bytes(content)
    elif damage == "empty":
        newest.write_bytes(b"")
    elif damage == "missing heads":
        sorted(folder.glob("heads-*"))[-1].unlink()
    else:
        for path in folder.iterdir():
            path.write_bytes(b"garbage")
    runs.execute(tmp_path / "hurt")
    assert "damaged" in capsys.readouterr().err
    assert contents(made / "whole") == contents(tmp_path / "hurt")


@pytest.mark.parametrize("tail", ["", '{"round": 3, "sched', "\x00\x00\x00\n", "not json\n"])
def test_half_written_lines_are_dropped(tmp_path, made, tail):
    shutil.copytree(made / "stopped after 3", tmp_path / "hurt")
    with open(tmp_path / "hurt" / "rounds.jsonl", "a") as lines:
        lines.write(tail)
    runs.execute(tmp_path / "hurt")
    assert contents(made / "whole") == contents(tmp_path / "hurt")


def test_a_full_disk_loses_nothing(tmp_path, tiny, made, monkeypatch):
    write, calls = files.write_file, []

    def full(path, content):
        calls.append(path)
        if len(calls) == 8:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(files, "write_file", full)
    commit_every_round(monkeypatch)
    with pytest.raises(InputError, match=r"No space left.*--resume"):
        run(tmp_path / "hurt", tiny)
    monkeypatch.undo()
    runs.execute(tmp_path / "hurt")
    assert contents(made / "whole") == contents(tmp_path / "hurt")


def test_a_finished_run_is_not_run_again(tmp_path, made):
    shutil.copytree(made / "whole", tmp_path / "run")
    first = runs.read_summary(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    assert runs.execute(tmp_path / "run") == first


def test_a_directory_with_a_run_is_not_overwritten(made):
    with pytest.raises(InputError, match=r"already holds a run; go on with --resume"):
        runs.create(made / "whole", load("mnist"))


def test_two_processes_never_write_one_run(tmp_path, tiny):
    runs.create(tmp_path / "run", load("mnist", tiny))
    with (
        runs.locked(tmp_path / "run"),
        pytest.raises(InputError, match="another process"),
    ):
        runs.execute(tmp_path / "run")


def test_writing_atomically_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        runs.write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def lines(directory):
    path = directory / "rounds.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.heavy
def test_twenty_kills_in_a_row_change_nothing(tmp_path, tiny):
    settings = load("mnist", tiny | {"run.rounds": 250, "learning.batch_size": 8})
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def start_run(name):
        code = f"from pmafl import runs; runs.execute({str(tmp_path / name)!r})"
        return subprocess.Popen([sys.executable, "-c", code], env=environment)

    directory, moments = tmp_path / "killed", random.Random(0)
    runs.create(tmp_path / "whole", settings)
    runs.create(directory, settings)
    assert start_run("whole").wait() == 0
    for _ in range(20):
        before = lines(directory)
        process = start_run("killed")
        while process.poll() is None and lines(directory) <= before:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.08))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert 20 <= lines(directory) < 250
    assert start_run("killed").wait() == 0
    assert contents(tmp_path / "whole") == contents(directory)
