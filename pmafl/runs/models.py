"""The trained models of a run: of any device, after any round.

The newest rounds are in checkpoints. Earlier ones are trained again by the schedule that was recorded, which
gives the same bits on the same machine, and that is checked against what was recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from math import isclose
from typing import TYPE_CHECKING

from pmafl.errors import InputError
from pmafl.rounds import start
from pmafl.runs.checkpoints import CHECKPOINT, Checkpoints, Damaged
from pmafl.runs.identity import IDENTITY, read_identity
from pmafl.runs.run import FEDERATION, Run

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pmafl.learning.method import LearningState, Method

SAME_LOSS = 1e-9  # but for the order of a sum over devices


class Models:
    """The models of a run after a number of its rounds (left out: all that were saved).

    Attributes:
        rounds: how many rounds they were trained for.
        together: whether all devices have one model.
        method: the algorithm and the network.
    """

    def __init__(self, run: Run, rounds: int | None = None) -> None:
        self._run, world = run, run.world
        if world.method is None:
            raise InputError(f"{run.directory} is a run without learning: it has no models")
        self.method: Method = world.method
        self.together = self.method.common == len(self.method.model.whole)
        remembers = self.method.memory or self.method.algorithm.tune  # what only a device can do
        if remembers and (run.directory / FEDERATION).is_file():
            raise InputError(
                f"{run.directory} is a federation's run: its devices keep their parts of the models"
            )
        self.rounds, self._state = self._find(rounds)

    def state_dict(self, device: int | None = None) -> dict[str, Tensor]:
        """Parameters and buffers of a device's model by name; None stands for the one that all have."""
        devices = self._run.settings.fleet.devices
        if device is None and not self.together:
            raise InputError(f"{self._run.directory}: every device has a model of its own; say which device")
        if device is not None and not 0 <= device < devices:
            raise InputError(f"device {device}: there are devices 0 to {devices - 1}")
        method, task = self.method, self._run.world.task
        if device is None or task is None:
            return method.model.state_dict(method.personal(self._state.server, method.memory))
        return method.model.state_dict(task.tested(self._state, device))

    def module(self, device: int | None = None) -> nn.Module:
        """The model of a device as a module of its own, ready to be used."""
        from pmafl.learning.rebuild import fresh_module

        return fresh_module(self.method, self._run.settings.run.seed, self.state_dict(device))

    def _find(self, rounds: int | None) -> tuple[int, LearningState]:
        run = self._run
        if (identity := read_identity(run.directory)) is None:
            raise InputError(f"{run.directory} has no {IDENTITY}, which says whose its checkpoints are")
        checkpoints, threads = Checkpoints(run.directory / CHECKPOINT, identity), None
        saved = checkpoints.rounds()
        done = len(run.rows)
        if rounds is not None and not 0 <= rounds <= done:
            raise InputError(f"round {rounds}: the run has {done} rounds so far; must be 0 to {done}")
        for number in saved:
            with contextlib.suppress(Damaged):
                found = checkpoints.load(number)
                threads = found.notes.threads if threads is None else threads
                if rounds in (None, number):
                    state = found.restore(start(run.world)).learning
                    assert state is not None, "a run with learning saves it"
                    return number, state
        if rounds is None and done:
            raise InputError(
                f"{run.directory}: none of its checkpoints can be read; say which --round to train again"
            )
        return rounds or 0, self._train_again(rounds or 0, threads)

    def _train_again(self, rounds: int, threads: int | None) -> LearningState:
        run, task = self._run, self._run.world.task
        if (run.directory / FEDERATION).is_file() or task is None:
            raise InputError(f"{run.directory} is a federation's run: only its last rounds are known here")
        state = task.start()
        with _threads(threads):
            for row in run.rows[:rounds]:
                state = task.advance(state, row["scheduled"], row["round"])
        recorded = run.rows[rounds - 1]["loss"] if rounds else None
        if recorded is None:
            return state
        if not isclose(now := task.evaluate(state).loss, recorded, rel_tol=SAME_LOSS):
            raise InputError(
                f"{run.directory}: trained again, round {rounds} has a loss of {now:.6f} "
                f"and not the {recorded:.6f} of the record; it needs the machine and versions of the run"
            )
        return state


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Train with as many threads as the run did: sums of another number differ in their last bits."""
    import torch

    here = torch.get_num_threads()
    torch.set_num_threads(count or here)
    try:
        yield
    finally:
        torch.set_num_threads(here)
