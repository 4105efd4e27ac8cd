"""Workers that die, and runs that are interrupted or killed: no bit changes, and nothing is left behind."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from multiprocessing import active_children
from pathlib import Path

import pytest

from pmafl import runs
from pmafl.errors import InputError
from tests.processes import PATIENCE_S, running, wait_until
from tests.runs.directories import contents
from tests.workers.crews import CASES, EVERYONE, eager, played

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="workers are forked on Linux alone")
SLOW = {"learning.algorithm": "tests.workers.own_slow:slow"}


def killed(overrides, workers, kills, rng):
    """The run, while one worker after another is killed at random moments; and how many were."""
    dead, over = [], threading.Event()
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("this kernel does not list a process's children")

    def kill():
        while len(dead) < kills and not over.wait(rng.uniform(0.01, 0.12)):
            pids = sorted(children.read_text().split())
            with contextlib.suppress(ProcessLookupError):  # it was let go a moment ago
                if pids:
                    os.kill(int(pids[len(dead) % len(pids)]), signal.SIGKILL)
                    dead.append(pids)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return played(overrides, workers), len(dead)
    finally:
        over.set()
        killer.join()


@pytest.mark.parametrize(("kills", "rounds"), [(3, 4), pytest.param(20, 40, marks=pytest.mark.heavy)])
def test_killing_each_worker_in_turn_at_random_moments_changes_no_bit(kills, rounds, tiny, monkeypatch):
    eager(monkeypatch)
    monkeypatch.setattr("pmafl.workers.crew.TRIES", 100)  # nobody kills the same device's worker by chance
    overrides = tiny | EVERYONE | CASES["sizes"] | SLOW | {"run.rounds": rounds}
    alone = played(overrides | {"learning.options.seconds": 0.0}, 1)
    found, dead = killed(overrides | {"learning.options.seconds": 0.05}, 2, kills, random.Random(kills))
    assert found == alone
    assert dead == kills
    assert active_children() == []


def test_a_device_that_kills_its_workers_is_given_up_in_one_line(tiny, monkeypatch, capfd):
    eager(monkeypatch)
    changes = {"learning.options.seconds": 0.0, "learning.options.dies": 30}
    with pytest.raises(
        InputError, match=r"^device 4: 3 workers died of it; the last one was killed by SIGKI"
    ):
        played(tiny | EVERYONE | CASES["sizes"] | SLOW | changes, 2)
    assert capfd.readouterr().err.count("warning: the worker of device 4 was killed by SIGKILL") == 2
    assert active_children() == []


@pytest.fixture
def program(tiny, tmp_path):
    """`pmafl run` with 3 workers that tell who they are, and an algorithm in a file beside it."""
    (tmp_path / "who").mkdir()
    (tmp_path / "mine_and_slow.py").write_text((Path(__file__).parent / "own_slow.py").read_text())
    overrides = tiny | EVERYONE | {"run.rounds": 8, "learning.algorithm": "mine_and_slow:slow"}
    options = {"learning.options.seconds": 0.25, "learning.options.notes": str(tmp_path / "who")}
    sets = [text for key, value in (overrides | options).items() for text in ("--set", f"{key}={value}")]
    process = subprocess.Popen(
        [sys.executable, "-m", "pmafl", "run", "mnist", *sets, "--workers", "3", "--out", "run"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


def memory():
    """What has a name and outlives a process."""
    return {path.name for path in Path("/dev/shm").glob("*") if "pmafl" in path.name or "psm_" in path.name}


def crew_of(process):
    return [pid for pid, group in running().items() if group == process.pid and pid != process.pid]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_an_end_in_the_middle_leaves_no_process_and_no_memory_and_goes_on_exactly(name, program, tmp_path):
    before, process = memory(), program
    wait_until(lambda: len(list((tmp_path / "who").iterdir())) >= 4 or process.poll() is not None)
    assert process.poll() is None, process.stderr.read()
    assert len(crew_of(process)) >= 3
    if name == "SIGINT":  # as a terminal does it: to all of them
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(getattr(signal, name))
    process.wait(PATIENCE_S)
    if name == "SIGINT":
        assert process.returncode == 130
        assert process.stderr.read() == ""
    wait_until(lambda: not crew_of(process))
    assert memory() <= before
    runs.execute(tmp_path / "run", workers=2)
    runs.run(tmp_path / "whole", runs.open_run(tmp_path / "run").settings, workers=1)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
