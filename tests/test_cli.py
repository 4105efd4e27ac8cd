import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pmafl import settings
from tests.processes import PATIENCE_S, running, wait_until
from tests.program import pmafl


def loaded_modules(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_printed_settings_are_a_fixed_point():
    first = pmafl("settings", "mnist")
    second = pmafl("settings", "-", stdin=first.stdout)
    assert first.returncode == 0
    assert second.stdout == first.stdout


def test_the_wireless_side_never_imports_torch():
    code = (
        "import pmafl, pmafl.cli\n"
        "import pmafl.scheduling, pmafl.allocation, pmafl.wireless.cell, pmafl.data\n"
        "next(pmafl.simulate(pmafl.load_settings('mnist', {'run.learning': 'none'})))"
    )
    loaded = loaded_modules(code)
    assert "pmafl.scheduling" in loaded
    assert "torch" not in loaded


def test_help_loads_nothing_slow():
    code = "from pmafl.cli import main\nsys.argv[1:] = ['--help']\ntry: main()\nexcept SystemExit: pass"
    loaded = loaded_modules(code)
    assert "pmafl.cli" in loaded
    assert loaded.isdisjoint({"torch", "scipy", "matplotlib", "ray", "flwr"})


@pytest.mark.parametrize("command", ["run", "compare", "settings", "efficiency"])
def test_help_names_every_preset(command):
    presets = {path.stem for path in (Path(settings.__file__).parent / "presets").glob("*.toml")}
    text = pmafl(command, "--help").stdout
    assert len(presets) >= 6
    assert presets <= set(re.findall(r"\w+", text))


def test_help_says_what_an_argument_is_and_keeps_brackets():
    text = " ".join(pmafl("plan", "--help").stdout.split())
    assert "Fleet, cell and what is free" in text
    assert "a section [plan] of what is free to choose" in text


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["settings", "mnits"], "neither a preset"),
        (["settings", "--set", "cell.bandwith_hz=1"], "did you mean cell.bandwidth_hz?"),
        (["run", "--set", "fleet.devices=0"], "greater than or equal to 1"),
        (["run", "--policy", "nonsense", "--set", "run.learning=none"], "nonsense"),
        (["run", "--algorithm", "nonsense"], "nonsense"),
        (["run", "--resume", "nowhere"], "not a run directory"),
        (["compare", "--vary", "policy"], "KEY=A,B"),
        (["compare", "--vary", "policy=dual,dual"], "twice"),
        (["compare", "--vary", "policy=dual,nope", "--set", "run.learning=none"], "there is no such policy"),
        (["compare", "--vary", "algorithm=pma,nope"], "learning.algorithm = 'nope'"),
        (["compare", "--vary", "data.directory=nowhere"], "no such directory"),
        (
            ["reproduce", "all", "--wireless-seeds", "1", "--set", "data.directory=nowhere"],
            "no such directory",
        ),
        (["settings", "--set", "cell"], "'cell': must be KEY=VALUE"),
        (["settings", "--set", f"run.rounds={'9' * 5000}"], "a whole number of thousands of digits"),
        (
            ["settings", "--set", f"run.rounds=0x{'f' * 6000}"],
            "run.rounds: has a whole number of thousands of digits",
        ),
        (["run", "--policy", "uniform", "--set", "policy.options.count=abc"], "must be a whole number"),
        (["run", "--set", b"policy.options.a=\xff"], "policy.options.a = '\\udcff': must be text in UTF-8"),
        (["run", "--set", b"\xff=1"], "must be text in UTF-8"),
        (
            ["run", "--out", "x" * 5000, "--set", "run.learning=none"],
            "cannot be written (File name too long)",
        ),
        (["run", "--resume", "x" * 5000], "File name too long"),
        (["run", "--tensorboard", "x" * 5000, "--set", "run.learning=none"], "File name too long"),
        (["settings", "x" * 5000], "neither a preset"),
        (["bound", "x" * 5000], "File name too long"),
        (["efficiency", "--policy", "all", "--set", "run.wireless=none"], "there is nothing to judge"),
    ],
    ids=lambda value: repr(value)[:80],
)
def test_bad_input_is_one_line_and_exit_code_two(arguments, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = pmafl(*arguments)
    assert result.returncode == 2
    assert part in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.rglob("*.toml"))


@pytest.mark.parametrize("name", ["[red]:smile:[/x]", os.fsdecode(b"x\xff")])
def test_a_run_directory_may_have_any_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = pmafl("run", "--set", "run.learning=none", "--set", "run.rounds=1", "--out", name)
    assert (result.returncode, result.stderr) == (0, "")
    shown = name.encode(errors="backslashreplace").decode()
    assert f"records and plots are in {shown}; start with {shown}/page.html" in result.stdout
    assert (tmp_path / name / "summary.json").is_file()


def test_a_users_policy_that_goes_wrong_is_one_line_that_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "masked.py").write_text("def mask(problem, rng):\n    return problem.queue_j > 0\n")
    result = pmafl("run", "--policy", "masked:mask", "--set", "run.learning=none")
    assert result.returncode == 2
    assert result.stderr.startswith(
        "error: policy 'masked:mask' in round 0: returned ndarray; it must return a "
    )
    assert result.stderr.count("\n") == 1


def test_an_unknown_command_is_one_line_and_exit_code_two_of_the_process():
    done = subprocess.run([sys.executable, "-m", "pmafl", "setings"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: No such command 'setings'")
    assert done.stderr.count("\n") == 1


@pytest.mark.heavy
def test_an_interrupted_comparison_ends_in_one_line_and_goes_on(tmp_path):
    options = ("mnist", "--seeds", "14", "--set", "run.learning='none'", "--set", "run.rounds=5")
    command = ["compare", *options, "--workers", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pmafl", *command],
        start_new_session=True,  # a terminal interrupts all processes of a command
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (done := set(tmp_path.glob("runs/*/summary.json"))):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on" in output
    assert errors == ""
    times = {path: path.stat().st_mtime_ns for path in done}
    assert pmafl(*command).returncode == 0
    assert len(list(tmp_path.glob("runs/*/summary.json"))) == 14
    assert times == {path: path.stat().st_mtime_ns for path in done}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_comparison_that_is_killed_leaves_no_worker(name, tmp_path):
    options = ("mnist", "--seeds", "4", "--set", "run.learning='none'", "--set", "run.rounds=100000")
    command = ["compare", *options, "--workers", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pmafl", *command], start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: process.poll() is not None or len(list(tmp_path.glob("runs/*/rounds.jsonl"))) == 2)
        assert list(running().values()).count(process.pid) >= 3  # itself and two workers
        process.send_signal(getattr(signal, name))
        process.wait(PATIENCE_S)
        wait_until(lambda: process.pid not in running().values())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
