"""Shares, times, clocks and powers for a given set of devices."""

from collections.abc import Callable

from pmafl.allocation.alternating import alternating
from pmafl.allocation.bandwidth import bandwidth, smallest_share
from pmafl.allocation.frontier import (
    Frontier,
    Point,
    at_price,
    awake,
    blocks,
    energy,
    frontiers,
    limit_energy,
    open_frontiers,
    point,
    power_end,
    set_ends,
    without_upload,
)
from pmafl.allocation.joint import joint
from pmafl.allocation.roots import NOT_ZERO, SMALL_STEP, SMALL_VALUE, rising_root, within
from pmafl.allocation.sets import Allocation, Allocator, Sets, count_fitting, energy_weights
from pmafl.allocation.time_division import time_division

__all__ = [
    "ALLOCATORS",
    "NOT_ZERO",
    "SMALL_STEP",
    "SMALL_VALUE",
    "Allocation",
    "Allocator",
    "Frontier",
    "Point",
    "Sets",
    "alternating",
    "at_price",
    "awake",
    "bandwidth",
    "blocks",
    "count_fitting",
    "energy",
    "energy_weights",
    "frontiers",
    "joint",
    "limit_energy",
    "open_frontiers",
    "point",
    "power_end",
    "rising_root",
    "set_ends",
    "smallest_share",
    "time_division",
    "within",
    "without_upload",
]

# Each entry makes an allocator.
ALLOCATORS: dict[str, Callable[[], Allocator]] = {"joint": lambda: joint, "alternating": alternating}
