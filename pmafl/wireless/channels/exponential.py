"""The paper's channel, Section V-A: Rayleigh fading, so a power gain of exponential law, new every round."""

import numpy as np

from pmafl.wireless.channels.base import Channel, Site, memoryless
from pmafl.wireless.problem import Array


def exponential(site: Site) -> Channel:
    """The path gain times Exp(1), independent over devices and rounds."""
    return memoryless(site.path_gain, _draw, quantile)


def quantile(level: Array) -> Array:
    """The factor of the path gain that stays below in this part of all rounds."""
    return -np.log1p(-level)


def _draw(devices: int, rng: np.random.Generator) -> Array:
    return rng.standard_exponential(devices)
