"""Waiting for things to happen, looking who is still running, and doing without other processes."""

import subprocess
import time

PATIENCE_S = 140  # for what takes two seconds on an idle machine


def wait_until(condition):
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "it never happened"
        time.sleep(0.05)


def running():
    """Process ids and their process groups, without those that only wait to be buried."""
    lines = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found = (line.split() for line in lines)
    return {int(pid): int(group) for pid, group, state in found if not state.startswith("Z")}


def one_after_another(function, tasks, workers):
    """In the place of `pmafl.workers.run_tasks`: in this process, which has imported everything already."""
    for number, task in enumerate(tasks):
        function(*task)
        yield number, None
