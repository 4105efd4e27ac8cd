"""Rounds as they happen: a line each at once, and from time to time a commit, which a power cut cannot undo.

A commit syncs lines and columns, then writes heads and state, then syncs their folder. Syncs are slow and
rounds may be fast, so commits are at least `LEAST_INTERVAL_S` apart and take at most `LARGEST_SHARE` of a
run's time: a killed run computes the rounds since the last one again. The first round of a process is always
committed, so that a run that is killed again and again still gets on, and so is the last before any end but a
kill.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import TracebackType

from pmafl.files import Appender
from pmafl.rounds import Record, State
from pmafl.runs.checkpoints import CHECKPOINT, Checkpoints
from pmafl.runs.columns import Columns
from pmafl.runs.records import RECORDS, seal
from pmafl.runs.recovery import Recovered, clear_the_way
from pmafl.settings import RunSettings

LEAST_INTERVAL_S = 1.0
LARGEST_SHARE = 0.01


class Journal:
    """The lines and checkpoints of a run that goes on; a context that commits at its end.

    With `every_round` each round is a commit: a federation's devices remember no further back.
    """

    def __init__(
        self,
        directory: Path,
        found: Recovered,
        run: RunSettings,
        threads: int | None,
        every_round: bool = False,
    ) -> None:
        self._run, self._threads, self._every_round = run, threads, every_round
        self._checkpoints = Checkpoints(directory / CHECKPOINT, found.identity)
        clear_the_way(directory, found, self._checkpoints)
        self._lines = Appender(directory / RECORDS, found.place.end)
        self._columns = Columns(directory, run, found.round)
        self._check = found.place.check
        self._changed: set[int] = set()
        self._uncommitted: State | None = None
        self._next_s = 0.0
        self._began_s = time.monotonic() - (found.saved.notes.wall_time_s if found.saved else 0.0)

    @property
    def wall_time_s(self) -> float:
        return time.monotonic() - self._began_s

    def add(self, state: State, record: Record) -> None:
        """Take in a round: write its line, and commit if that is due."""
        line, check = seal(record.to_dict(), self._check)
        if record.per_device:  # first, so that whoever sees the line finds them
            self._columns.add(record.round, record.per_device)
        self._lines.append(line)
        self._check, self._uncommitted = check, state
        self._changed.update(record.scheduled)
        due = state.round % self._run.checkpoint_every == 0 and time.monotonic() >= self._next_s
        if due or self._every_round or state.round == self._run.rounds:
            self.commit()

    def commit(self) -> None:
        """Make all rounds so far durable."""
        if self._uncommitted is None:
            return
        began_s = time.monotonic()
        self._lines.sync()
        self._columns.sync()
        self._checkpoints.save(self._uncommitted, self._changed, self._check, self._threads, self.wall_time_s)
        self._uncommitted = None
        self._changed.clear()
        now_s = time.monotonic()
        self._next_s = now_s + max(LEAST_INTERVAL_S, (now_s - began_s) / LARGEST_SHARE)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # What went wrong first is what a person must hear of, not that saving after it failed too.
            with contextlib.suppress(OSError) if error else contextlib.nullcontext():
                self.commit()
        finally:
            self._lines.close()
            self._columns.close()
