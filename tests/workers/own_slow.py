"""An algorithm of a user's, in a file of its own, on devices that take their time or do harm."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from pmafl.learning.algorithms import find_algorithm


def slow(learning, seconds: float = 0.1, notes: str = "", fails: int = -1, dies: int = -1):
    """The paper's algorithm, on devices that take a while.

    Who trains leaves its process's number in the folder `notes`. The device with so many samples `fails`, or
    the process `dies` of it.
    """
    shared = find_algorithm(learning.model_copy(update={"algorithm": "pma", "options": {}}))

    def local(engine, server, device, samples, rng):
        if notes:
            Path(notes, str(os.getpid())).touch()
        time.sleep(seconds)
        if len(samples.y) == fails:
            raise ValueError("no more of this")
        if len(samples.y) == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return shared.local(engine, server, device, samples, rng)

    return replace(shared, local=local)
