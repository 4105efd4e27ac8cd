"""Channel models: one per file, found by name or at ``package.module:name``.

A model is a function from a `Site` and its options to a `Channel`:

    def flat(site, gain=1e-8):
        return memoryless(np.full(site.devices, gain), lambda devices, rng: np.ones(devices), np.ones_like)
"""

from collections.abc import Callable

from pmafl.errors import InputError
from pmafl.registry import Registry, make
from pmafl.wireless.channels.base import Channel, Site, State, memoryless, middles
from pmafl.wireless.channels.checking import checked
from pmafl.wireless.channels.constant import constant
from pmafl.wireless.channels.exponential import exponential
from pmafl.wireless.channels.exponential import quantile as exponential_quantile
from pmafl.wireless.channels.rician import rician
from pmafl.wireless.channels.shadowing import shadowing
from pmafl.wireless.channels.trace import follow

__all__ = [
    "CHANNELS",
    "Channel",
    "Site",
    "State",
    "exponential_quantile",
    "make_channel",
    "memoryless",
    "middles",
]

CHANNELS: Registry[Callable[..., Channel]] = Registry(
    "channel model",
    "cell.channel",
    {"exponential": exponential, "none": constant, "rician": rician, "shadowing": shadowing},
)


def make_channel(site: Site, rounds: int) -> Channel:
    """The channel that the cell's settings name; a trace takes the place of its draws."""
    name = site.cell.channel
    what = f"channel model {name!r}"
    channel = make(CHANNELS.find(name), what, (site,), site.cell.options)
    if not isinstance(channel, Channel):
        raise InputError(
            f"cell.channel = {name!r}: must return a Channel, but returned a {type(channel).__name__}"
        )
    channel = checked(channel, site.devices, what)
    return follow(channel, site.cell.gain_trace, rounds) if site.cell.gain_trace else channel
