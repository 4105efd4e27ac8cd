"""Numbers for devices drawn from what the settings say: a number for all, a list, or a distribution."""

import numpy as np
from numpy.typing import NDArray

from pmafl.settings import Distribution, Spread

MOST_SAMPLES = 10**15  # more than any data set has, and still a whole number that can be summed


def draw(spread: Spread, devices: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """One value per device from a number, a list or a distribution."""
    if not isinstance(spread, Distribution):
        return np.broadcast_to(np.asarray(spread, dtype=np.float64), (devices,)).copy()
    if spread.distribution == "choice":
        return rng.choice(np.asarray(spread.values), devices)
    if spread.distribution == "loguniform":
        return np.exp(rng.uniform(np.log(spread.low), np.log(spread.high), devices))
    return rng.uniform(spread.low, spread.high, devices)


def draw_samples(spread: Spread | str, devices: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Whole numbers of training samples per device, or None for "equal": what dividing the data set gives."""
    if isinstance(spread, str):
        return None
    return np.clip(np.rint(draw(spread, devices, rng)), 1, MOST_SAMPLES).astype(np.int64)
