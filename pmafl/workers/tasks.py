"""Processes that do tasks one after another, and end with the process that started them, however it ends.

A worker may be killed at any moment: its task then counts as failed with `WorkerDied`, and another worker
takes its place. Each worker has a pipe of its own, so it is always known which task a worker died of.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import Any

from pmafl.errors import InputError, NoAnswer

STARTS = 3  # of one worker in vain, before it is given up that any can start

Task = tuple[Any, ...]


class WorkerDied(Exception):
    """A worker ended in the middle of its task: by a signal, out of memory, or by an exit of its own."""


class _Worker:
    """A process and this end of its pipe."""

    def __init__(self, function: Callable[..., object]) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(function, theirs))
        self.ready = False  # until it has started and said so
        self.task: int | None = None
        # A terminal interrupts all processes of a command. Workers leave that to their parent, from their
        # first moment on: what is blocked here stays blocked in the new process. Starting multiprocessing's
        # tracker, which the first start would do, unblocks it again.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def give(self, task: int, arguments: Task) -> None:
        self.task = task
        with contextlib.suppress(OSError):  # it has died already, and its pipe will say so
            self.pipe.send(arguments)

    def answer(self) -> Exception | None:
        """What became of the task; waits for it."""
        try:
            error: Exception | None = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return WorkerDied(cause(self.process.exitcode or 0))
        return error

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_tasks(
    function: Callable[..., object], tasks: Sequence[Task], workers: int
) -> Generator[tuple[int, Exception | None]]:
    """Call a function with each task's arguments in `workers` processes.

    Gives the number of each task as it ends, with its error, or None. Close the iterator to end early: its
    workers are killed.
    """
    waiting = list(enumerate(tasks))[::-1]
    pool: list[_Worker] = []
    starts_in_vain = 0
    try:
        while waiting or any(worker.task is not None for worker in pool):
            while len(pool) < workers and sum(worker.task is None for worker in pool) < len(waiting):
                pool.append(_Worker(function))
            ready = connection.wait([worker.pipe for worker in pool])
            for worker in [worker for worker in pool if worker.pipe in ready]:
                error, task, was_ready = worker.answer(), worker.task, worker.ready
                worker.ready, worker.task = True, None
                if isinstance(error, WorkerDied):
                    worker.end()
                    pool.remove(worker)
                    starts_in_vain += not was_ready
                    if starts_in_vain >= STARTS * workers:
                        raise InputError(f"no worker can start: the last one {error}")
                else:
                    starts_in_vain = 0
                    if waiting:
                        worker.give(*waiting.pop())
                if task is not None:
                    yield task, error
    finally:
        for worker in pool:
            worker.end()


def _serve(function: Callable[..., object], pipe: connection.Connection) -> None:
    """A worker's life: say that it is ready, then take tasks and answer."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):  # when the parent is gone
        pipe.send(None)
        while True:
            pipe.send(_attempt(function, pipe.recv()))


def _attempt(function: Callable[..., object], arguments: Task) -> Exception | None:
    try:
        function(*arguments)
    except (InputError, NoAnswer) as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())  # not every exception survives the way to its parent
    return None


def end_with_parent() -> None:
    """Wait until the parent is gone, and go too; nothing that a task writes minds being cut off."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"was killed by {name}" + (" (perhaps out of memory)" if name == "SIGKILL" else "")
