"""How many threads training uses: always one, so that a run is the same on any machine, to the bit.

Sums of another number of threads differ in their last digits. More cores are for more workers.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def threads(count: int = 1) -> Iterator[None]:
    """Have torch use so many threads, and as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
