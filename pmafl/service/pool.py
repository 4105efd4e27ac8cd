"""Processes that decide, so that whoever serves others never waits for a decision.

Each has a pipe of its own and answers one question at a time. One that takes longer than the limit, or dies,
is replaced; only its own question gets no answer. All end with the process that started them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection, get_context, parent_process

from pmafl.service.replies import Asked, Memory, Reply, reply

START_S = 120.0  # that a process may take to start, on a machine however busy


class Overdue(Exception):
    """A decision took longer than the limit."""


class Died(Exception):
    """A process ended in the middle of a decision, perhaps out of memory."""


class Busy(Exception):
    """As many questions are waiting as may."""


class _Worker:
    """A process and this end of its pipe."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        # A terminal interrupts all processes of a command: these leave that to their parent.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self.ready = False

    def answer(self, asked: Asked, memory: Memory, text: bytes, limit_s: float) -> Reply:
        try:
            if not self.ready:
                self._receive(START_S)
                self.ready = True
            self.pipe.send((asked, memory, text))
            found: Reply = self._receive(limit_s)
        except (EOFError, OSError):
            raise Died from None
        return found

    def _receive(self, limit_s: float) -> Reply:
        if not self.pipe.poll(limit_s):
            raise Overdue
        received: Reply = self.pipe.recv()
        return received

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Pool:
    """So many processes, and so many questions that may wait for one."""

    def __init__(self, workers: int, waiting: int, limit_s: float) -> None:
        self.limit_s, self.most = limit_s, workers + waiting
        self.asked = 0  # questions that have no answer yet
        self.replaced = 0  # processes, so far
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._all = [_Worker() for _ in range(workers)]
        for worker in self._all:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="decisions")
        self._lock, self._closed = threading.Lock(), False

    async def reply(self, asked: Asked, memory: Memory, text: bytes) -> Reply:
        """The reply of a process that is free, or the first that will be."""
        if self.asked >= self.most:
            raise Busy
        self.asked += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._answer, asked, memory, text)
        finally:
            self.asked -= 1

    def _answer(self, asked: Asked, memory: Memory, text: bytes) -> Reply:
        worker = self._idle.get()  # there are as many as threads
        try:
            return worker.answer(asked, memory, text, self.limit_s)
        except (Overdue, Died):
            worker = self._replace(worker)
            raise
        finally:
            self._idle.put(worker)

    def _replace(self, worker: _Worker) -> _Worker:
        worker.end()
        with self._lock:
            if self._closed:
                return worker
            self.replaced += 1
            new = _Worker()
            self._all[self._all.index(worker)] = new
            return new

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        with self._lock:
            self._closed = True
        for worker in self._all:
            worker.process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._all:
            worker.end()


def _work(pipe: connection.Connection) -> None:
    """A process's life: say that it is ready, then answer."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # when the parent is gone
        pipe.send(None)
        while True:
            asked, memory, text = pipe.recv()
            pipe.send(reply(asked, memory, text))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
