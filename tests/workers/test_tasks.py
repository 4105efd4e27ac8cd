import os
import signal
import subprocess
import sys
import time

import pytest

from pmafl.errors import InputError
from pmafl.workers import WorkerDied, run_tasks
from tests.processes import PATIENCE_S, running, wait_until


def note(folder, name, text=""):
    (folder / f".{name}").write_text(text)
    (folder / f".{name}").rename(folder / name)


def write(folder, name):
    note(folder, name, str(os.getpid()))


def write_or_fail(folder, name):
    if name == "bad":
        raise InputError("this is bad")
    if name == "odd":
        raise ZeroDivisionError("this is odd")
    if name == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    write(folder, name)


def sleep(folder, name):
    write(folder, name)
    time.sleep(3600)


def outcomes(function, folder, names, workers):
    return {names[i]: error for i, error in run_tasks(function, [(folder, name) for name in names], workers)}


def alive(pid):
    return pid in running()


def test_every_task_is_done_once_and_workers_are_used_again(tmp_path):
    names = [f"task {i}" for i in range(9)]
    assert outcomes(write, tmp_path, names, 2) == dict.fromkeys(names)
    pids = {int((tmp_path / name).read_text()) for name in names}
    assert 1 <= len(pids) <= 2
    assert not any(map(alive, pids))


def test_without_tasks_no_worker_is_started(tmp_path):
    assert outcomes(write, tmp_path, [], 2) == {}


def test_what_a_task_does_to_its_worker_does_not_touch_the_others(tmp_path):
    found = outcomes(write_or_fail, tmp_path, ["deadly", "a", "bad", "b", "odd", "c"], 1)
    assert [found[name] for name in "abc"] == [None] * 3
    assert isinstance(found["bad"], InputError)
    assert str(found["bad"]) == "this is bad"
    assert "ZeroDivisionError: this is odd" in str(found["odd"])
    assert isinstance(found["deadly"], WorkerDied)
    assert "SIGKILL" in str(found["deadly"])


def test_ending_early_ends_the_workers(tmp_path):
    tasks = run_tasks(write, [(tmp_path, "first")], 1)
    next(tasks)
    pid = int((tmp_path / "first").read_text())
    assert alive(pid)
    tasks.close()
    assert not alive(pid)


def test_workers_that_cannot_start_are_given_up(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os\n"
        "if __name__ != '__main__': os._exit(7)\n"  # as in a script that forgets to ask for its name
        "from pmafl.workers import run_tasks\n"
        "list(run_tasks(print, [(1,)] * 50, 2))\n"
    )
    result = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "no worker can start: the last one ended with exit code 7" in result.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_workers_end_with_their_parent_however_it_ends(name, tmp_path):
    (tmp_path / "script.py").write_text(
        "import signal, sys\nfrom pathlib import Path\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # which nohup, before the tests, would ignore
        f"sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.dirname(__file__)))!r})\n"
        "from tests.workers.test_tasks import sleep, run_tasks\n"
        "if __name__ == '__main__':\n"
        "    list(run_tasks(sleep, [(Path(), f'task {i}') for i in range(4)], 4))\n"
    )
    process = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path)
    try:
        wait_until(lambda: len(list(tmp_path.glob("task *"))) == 4)
        pids = [int(path.read_text()) for path in tmp_path.glob("task *")]
        assert all(map(alive, pids))
        process.send_signal(getattr(signal, name))
        process.wait(PATIENCE_S)
        wait_until(lambda: not any(map(alive, pids)))
    finally:
        process.kill()
        process.wait()


def test_workers_leave_an_interrupt_to_their_parent_from_their_first_moment_on():
    """In a new process: its first worker starts multiprocessing's tracker, which unblocks signals."""
    code = (
        "from pathlib import Path; from pmafl.workers.tasks import _Worker; "
        "worker = _Worker(print); status = Path(f'/proc/{worker.process.pid}/status').read_text(); "
        "worker.end(); print(int(status.split('SigBlk:')[1].split()[0], 16))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) & 1 << signal.SIGINT - 1
