"""Algorithms of a user, in a file of their own, that take their time or do harm."""

import os
import signal
import time
from pathlib import Path

from pmafl.learning.algorithms import find_algorithm


def slow(learning, seconds: float = 0.3, notes: str = "", fails: int = -1, dies: int = -1):
    """FedAvg on devices that take a while.

    A worker leaves its number in the folder `notes`. The training with so many samples `fails`, or `dies`.
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

    return type(shared)(**{**vars(shared), "local": local})
