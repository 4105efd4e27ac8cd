"""Roots of many rising functions at once: Newton's method, kept inside a bracket by bisection."""

from collections.abc import Callable

import numpy as np

from pmafl.wireless import Array

NOT_ZERO = 1e-300  # in place of a 0 that would be divided by, or have no logarithm
LEAST_SLOPE = 1e-9  # of a sum that is all but flat: a root is sought with a slope above 0

STEPS = 200
# Newton's error squares with each step: after a step this small, from a value this small, nothing is left.
SMALL_STEP, SMALL_VALUE = 1e-8, 1e-6
ROUNDING = 4e-15  # of an argument: no step can be told from none that is shorter


def within(values: Array, low: Array | float, high: Array | float) -> Array:
    """The same as `np.clip`; on a few numbers much faster."""
    return np.minimum(np.maximum(values, low), high)


def rising_root(
    residual: Callable[[Array], tuple[Array, Array]],
    low: Array,
    high: Array,
    start: Array,
    small_step: float = SMALL_STEP,
    small_value: float = SMALL_VALUE,
) -> Array:
    """Where each residual, rising in its own variable, is zero, or the nearer end of its bracket.

    Args:
        residual: gives value, of the order of 1, and slope (positive) for an array of arguments.
        low, high: bracket, one entry per function.
        start: first guess.
        small_step, small_value: after such a step of Newton's method from such a value the search ends.
    """
    at = within(start, low, high)
    low, high = low.copy(), high.copy()
    low_tried, high_tried = np.zeros(at.shape, bool), np.zeros(at.shape, bool)
    last = before_last = np.full(at.shape, np.inf)
    for turn in range(STEPS):
        value, slope = residual(at)
        below, above = value <= 0.0, value >= 0.0
        np.copyto(low, at, where=below)
        np.copyto(high, at, where=above)
        low_tried |= below
        high_tried |= above
        step = at - value / slope
        length = np.abs(step - at)
        good = (step >= low) & (step <= high)
        circling = None
        if turn >= 2:
            # Between inflections Newton's method may run in circles: its steps must halve every second time.
            long = length > np.maximum(before_last * 0.5, small_step)
            if np.count_nonzero(long):
                circling = low_tried & high_tried & long
                good &= ~circling
        if np.count_nonzero(good) < good.size:
            middle = (low + high) / 2
            end = np.where(step < low, np.where(low_tried, middle, low), np.where(high_tried, middle, high))
            if circling is not None:
                end = np.where(circling, middle, end)
            step = np.where(good, step, end)
            length = np.abs(step - at)
        before_last, last, at = last, length, step
        small = (length <= small_step) & (np.abs(value) < small_value) & good
        if np.count_nonzero(small) < small.size:
            small |= length <= ROUNDING * (1.0 + np.abs(at))
        if np.count_nonzero(small) == small.size:
            break
    return at
