"""Workers in processes that are forked from this one: they have its data, its network, and whatever the
user's code has made. Weights and uploads go through shared memory.

A worker trains with one thread, as this process does. It ends with this process, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import connection, get_context, parent_process
from typing import Any

import torch
from torch import Tensor

from pmafl.learning.task import LearningTask
from pmafl.workers.crew import AHEAD, Answer, Event, attempt
from pmafl.workers.packing import Block, Form, pack, unpack
from pmafl.workers.tasks import WorkerDied, cause, end_with_parent

Shared = tuple[int, Any, list[Form]]  # its number, the message, and where its tensors lie


class Forks:
    """The back end of forked processes."""

    start_s, part_s = 0.03, 0.0005

    def __init__(self, task: LearningTask) -> None:
        self.task = task
        self.common = Block()
        self.shared: Shared = (0, {}, [])

    def hire(self) -> Fork:
        return Fork(self)

    def share(self, shared: Mapping[str, Any]) -> None:
        tensors: list[Tensor] = []
        message = pack(shared, tensors)
        self.shared = (self.shared[0] + 1, message, self.common.write(tensors))

    def wait(self, workers: Sequence[Fork], timeout_s: float | None) -> list[tuple[Fork, Event]]:
        ready = connection.wait([worker.pipe for worker in workers], timeout_s)
        return [(worker, worker.answer()) for worker in workers if worker.pipe in ready]

    def close(self) -> None:
        self.common.close()


class Fork:
    """A process, this end of its pipe, and a block for each part that it may have."""

    ready = True  # what it is given before it has started, it finds in its pipe

    def __init__(self, back_end: Forks) -> None:
        context = get_context("fork")
        self._back_end, self._knows = back_end, 0
        self._blocks = [Block() for _ in range(AHEAD)]
        self._free = list(range(AHEAD))
        self.pipe, theirs = context.Pipe()
        arguments = (back_end.task, theirs, back_end.common, self._blocks)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        # A terminal interrupts all processes of a command. What is blocked here stays blocked in the new one:
        # it must never act on an interrupt, for it begins in the middle of what this process does.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            with warnings.catch_warnings():
                # Python warns of locks that other threads hold; the new process uses none of them.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        except OSError:
            self._let_go()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def give(self, number: int, kind: str, part: Any) -> None:
        tensors: list[Tensor] = []
        message, slot = pack(part, tensors), self._free.pop()
        forms = self._blocks[slot].write(tensors)
        news = self._back_end.shared if self._knows != self._back_end.shared[0] else None
        self._knows = self._back_end.shared[0]
        with contextlib.suppress(OSError):  # it has died already, and its pipe will say so
            self.pipe.send((number, slot, news, kind, message, forms))

    def answer(self) -> Answer | WorkerDied:
        try:
            number, slot, message, forms, error, seconds = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return WorkerDied(cause(self._process.exitcode or 0))
        self._free.append(slot)
        return Answer(number, unpack(message, self._blocks[slot].take(forms)), error, seconds)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._let_go()

    def _let_go(self) -> None:
        self.pipe.close()
        for block in self._blocks:
            block.close()


def _serve(task: LearningTask, pipe: connection.Connection, common: Block, blocks: Sequence[Block]) -> None:
    """A worker's life: take parts, do them, answer."""
    _leave_the_parent(keep=[pipe.fileno(), common.fileno(), *(block.fileno() for block in blocks)])
    threading.Thread(target=end_with_parent, daemon=True).start()
    shared: Mapping[str, Any] = {}
    with contextlib.suppress(EOFError, ConnectionError):  # when the parent is gone
        while True:
            number, slot, news, kind, message, forms = pipe.recv()
            if news:
                shared = unpack(news[1], common.read(news[2]))
            part = unpack(message, blocks[slot].take(forms))
            began_s = time.perf_counter()
            result, error = attempt(task, kind, shared, part)
            seconds = time.perf_counter() - began_s
            tensors: list[Tensor] = []
            packed = pack(result, tensors)
            pipe.send((number, slot, packed, blocks[slot].write(tensors), error, seconds))


def _leave_the_parent(keep: Iterable[int]) -> None:
    """Have nothing of what this process inherited but what it needs.

    A lock goes with the last process that has its file open, and a pipe ends with the last that has its other
    end: these must be the parent. Its signal handlers and its streams, which may be locked by threads that do
    not exist here, are left too, and so is whatever it was doing.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    parent = parent_process()
    kept = {0, 1, 2, *keep, *([parent.sentinel] if parent else [])}
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in kept and descriptor != nothing:
            with contextlib.suppress(OSError):
                # Not closed: an object that closes it once more must not hit a file opened since.
                os.dup2(nothing, descriptor, inheritable=False)
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    torch.set_grad_enabled(True)  # the fork may have happened in the middle of a test
