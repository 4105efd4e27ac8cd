"""No fading: every round has the path gain."""

import numpy as np

from pmafl.wireless.channels.base import Channel, Site, memoryless


def constant(site: Site) -> Channel:
    """The path gain itself."""
    return memoryless(site.path_gain, lambda devices, rng: np.ones(devices), np.ones_like)
