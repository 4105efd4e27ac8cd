"""Roots of many rising functions at once: Newton's method, kept inside a bracket by bisection."""

from collections.abc import Callable

import numpy as np

from pmafl.wireless.problem import Array

STEPS = 200
# Newton's error squares with each step: a step this small leaves nothing for another one.
SMALL_STEP = 1e-8


def rising_root(
    residual: Callable[[Array], tuple[Array, Array]], low: Array, high: Array, start: Array
) -> Array:
    """Where each residual, rising in its own variable, is zero; the nearer end of [low, high] where it is
    not.

    Args:
        residual: gives value and slope (positive) for an array of arguments.
        low, high: bracket, one entry per function.
        start: first guess.
    """
    at = np.clip(start, low, high)
    low_tried = high_tried = np.zeros(at.shape, bool)
    for _ in range(STEPS):
        value, slope = residual(at)
        below, above = value <= 0, value >= 0
        low, high = np.where(below, at, low), np.where(above, at, high)
        low_tried, high_tried = low_tried | below, high_tried | above
        middle = (low + high) / 2
        step = at - value / slope
        step = np.where(step >= low, step, np.where(low_tried, middle, low))
        step = np.where(step <= high, step, np.where(high_tried, middle, high))
        done = np.abs(step - at).max(initial=0.0) < SMALL_STEP
        at = step
        if done:
            break
    return at
