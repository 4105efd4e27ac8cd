"""Shares, times, clocks and powers for a given set of devices."""

from collections.abc import Callable

from pmafl.allocation.alternating import alternating
from pmafl.allocation.joint import joint
from pmafl.allocation.sets import Allocator

# Each entry makes an allocator.
ALLOCATORS: dict[str, Callable[[], Allocator]] = {"joint": lambda: joint, "alternating": alternating}
