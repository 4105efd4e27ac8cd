"""How many cores this process may use, which is often fewer than the machine has."""

import os
from contextlib import suppress
from math import ceil
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of CPU in every so many


def cores() -> int:
    """Cores that this process may run on, and that its container lets it use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or "max"
        allowed_us, period_us = map(int, QUOTA.read_text().split())
        count = min(count, ceil(allowed_us / period_us))
    return max(1, count)
