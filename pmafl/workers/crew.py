"""Handing out the parts of some work, and giving back what came of them in the order of the parts.

The longest parts go first, so that no worker is left with one at the end. What is done but not yet given back
has to be kept, so nobody works further ahead than a window: memory does not grow with the number of parts. A
worker that dies is replaced, and its parts are done again. Where workers are is a back end's business: in
processes on this machine (`processes`), or on a Ray cluster (`cluster`).
"""

from __future__ import annotations

import heapq
import sys
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from pmafl.errors import InputError, NoAnswer
from pmafl.workers.tasks import WorkerDied

if TYPE_CHECKING:
    from pmafl.learning.task import LearningTask, Work

TRIES = 3  # of a part whose workers die
AHEAD = 2  # parts that a worker has at a time, so that it need not wait for the next


def attempt(
    task: LearningTask, kind: str, shared: Mapping[str, Any], part: Any
) -> tuple[Any, Exception | None]:
    """What came of a part, and what went wrong."""
    try:
        return task.do(kind, shared, part), None
    except (InputError, NoAnswer) as error:
        return None, type(error)(str(error))  # without its cause, which may not survive the way
    except Exception:
        return None, RuntimeError(traceback.format_exc())


class Answer(NamedTuple):
    """What came of a part: its result, or what went wrong, and how long it took."""

    number: int
    result: Any
    error: Exception | None
    seconds: float


Event = Answer | WorkerDied | Literal["ready"]


class Worker(Protocol):
    """Does parts one after another, in the order in which it gets them."""

    ready: bool

    def give(self, number: int, kind: str, part: Any) -> None:
        """Have it do a part."""

    def end(self) -> None:
        """At once, whatever it is doing."""


class BackEnd(Protocol):
    """Where workers are.

    start_s: what it takes until a worker is there. part_s: what a part takes beyond its work.
    """

    start_s: float
    part_s: float

    def hire(self) -> Worker:
        """One more worker."""

    def share(self, shared: Mapping[str, Any]) -> None:
        """What all parts from now on need; no worker is busy."""

    def wait(self, workers: Sequence[Any], timeout_s: float | None) -> list[tuple[Any, Event]]:
        """What happened to workers; if nothing did yet, wait for it."""

    def close(self) -> None:
        """When all workers have ended."""


@dataclass(eq=False)
class _Hand:
    """A worker and the numbers of the parts that it has, the one that it is doing first."""

    worker: Worker
    parts: deque[int] = field(default_factory=deque)


class Crew:
    """At most `size` workers, hired when there is work for them."""

    def __init__(self, back_end: BackEnd, size: int) -> None:
        self.size = size
        self._back_end = back_end
        self._hands: list[_Hand] = []
        self._starts_in_vain = 0
        self._shared: Mapping[str, Any] | None = None

    @property
    def hired(self) -> bool:
        """Whether there are workers already."""
        return bool(self._hands)

    def overhead_s(self, parts: int) -> float:
        """What it costs to have so many parts done by workers instead of here."""
        missing = min(self.size, parts) - len(self._hands)
        return max(0, missing) * self._back_end.start_s + parts * self._back_end.part_s

    def spread(self, work: Work, window: int) -> Iterator[Answer]:
        """Have all parts done; gives the answers in the order of the parts, none of them with an error.

        What goes wrong in a part is raised in its turn, as if all had been done one after another here.
        """
        if work.shared is not self._shared:  # two kinds of parts may need the same
            self._back_end.share(work.shared)
            self._shared = work.shared
        total, begun, given = len(work.parts), 0, 0
        waiting: list[tuple[float, int]] = []
        done: dict[int, Answer] = {}
        deaths: Counter[int] = Counter()
        try:
            while given < total:
                for number in range(begun, min(total, given + window)):
                    heapq.heappush(waiting, (-work.costs[number], number))
                    begun = number + 1
                self._hand_out(work, waiting, total - given)
                for hand, event in self._events(block=given not in done):
                    if event == "ready":
                        self._starts_in_vain = 0
                    elif isinstance(event, Answer):
                        done[hand.parts.popleft()] = event
                    elif isinstance(event, WorkerDied):
                        self._bury(hand, event, work, deaths)
                        for number in hand.parts:
                            heapq.heappush(waiting, (-work.costs[number], number))
                self._hand_out(work, waiting, total - given)
                if given in done:
                    answer = done.pop(given)
                    if answer.error:
                        raise answer.error
                    yield answer
                    given += 1
        finally:
            for hand in [hand for hand in self._hands if hand.parts]:  # given up half-way
                self._dismiss(hand)

    def close(self) -> None:
        for hand in list(self._hands):
            self._dismiss(hand)
        self._back_end.close()

    def _hand_out(self, work: Work, waiting: list[tuple[float, int]], left: int) -> None:
        while len(self._hands) < min(self.size, left):
            try:
                self._hands.append(_Hand(self._back_end.hire()))
            except OSError as error:  # no more processes, files or memory
                if not self._hands:
                    raise InputError(f"no worker can start ({error.strerror}); use --workers 1") from None
                self.size = len(self._hands)
                print(f"warning: no more than {self.size} workers ({error.strerror})", file=sys.stderr)
        for most in range(1, AHEAD + 1):
            for hand in self._hands:
                # Near the end nobody takes a part before it can start: another may be free earlier.
                enough = len(waiting) > (len(self._hands) if most > 1 else 0)
                if enough and hand.worker.ready and len(hand.parts) < most:
                    _, number = heapq.heappop(waiting)
                    hand.parts.append(number)
                    hand.worker.give(number, work.kind, work.parts[number])

    def _events(self, block: bool) -> list[tuple[_Hand, Event]]:
        by_worker = {id(hand.worker): hand for hand in self._hands}
        happened = self._back_end.wait([hand.worker for hand in self._hands], None if block else 0.0)
        return [(by_worker[id(worker)], event) for worker, event in happened]

    def _bury(self, hand: _Hand, death: WorkerDied, work: Work, deaths: Counter[int]) -> None:
        """Take note of a death; the part that the worker was doing may have been the reason."""
        self._dismiss(hand)
        self._starts_in_vain += not hand.worker.ready
        if self._starts_in_vain == TRIES * self.size:
            raise InputError(f"no worker can start: the last one {death}")
        if not hand.parts:
            return
        first = hand.parts[0]
        deaths[first] += 1
        what = f"device {work.parts[first][0]}" if work.kind == "train" else "a test"
        if deaths[first] == TRIES:
            raise InputError(
                f"{what}: {TRIES} workers died of it; the last one {death}; use fewer workers (--workers N; "
                f"with 1 there is no other process)"
            )
        print(f"warning: the worker of {what} {death}; that is done again", file=sys.stderr)

    def _dismiss(self, hand: _Hand) -> None:
        self._hands.remove(hand)
        hand.worker.end()
