"""How far long work has come: who does it reports, and whoever is listening hears it.

Work deep inside a run, such as a policy's planning, knows nothing of who started it; commands listen around
all that they call. Without a listener a report goes nowhere.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[float], None]  # is told now and then which part of the work is done, from 0 to 1
Listener = Callable[[str, float], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def ignore(part: float) -> None:
    """The progress of which nobody wants to hear."""


def report(work: str, part: float) -> None:
    """Says which part of some work is done."""
    if (listener := _listener.get()) is not None:
        listener(work, part)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Lets the listener hear all reports made meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
