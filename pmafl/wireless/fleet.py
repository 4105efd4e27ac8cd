"""The devices as arrays: what each one holds, computes, transmits and may spend.

Settings describe a fleet as numbers, lists or distributions; here they become one array a quantity. What the
channel does to the devices stands in `cell`, what a round costs them in `cpu` and `radio`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmafl.brief import brief
from pmafl.settings import Distribution, FleetSettings, Spread

Array = NDArray[np.float64]


@brief
@dataclass(frozen=True)
class Fleet:
    """One entry a device in every array.

    Attributes:
        samples: training samples D.
        cycles_per_sample: CPU cycles C for one sample in one local iteration.
        max_frequency_hz: fastest CPU clock.
        max_power_w: largest transmit power.
        budget_j: long-term energy budget a round.
        path_gain: mean channel power gain.
    """

    samples: Array
    cycles_per_sample: Array
    max_frequency_hz: Array
    max_power_w: Array
    budget_j: Array
    path_gain: Array

    @property
    def devices(self) -> int:
        return int(self.samples.size)


def draw(spread: Spread, devices: int, rng: np.random.Generator) -> Array:
    """One value a device from a number, a list or a distribution."""
    if not isinstance(spread, Distribution):
        return np.broadcast_to(np.asarray(spread, dtype=np.float64), (devices,)).copy()
    if spread.distribution == "choice":
        return rng.choice(np.asarray(spread.values), devices)
    if spread.distribution == "loguniform":
        return np.exp(rng.uniform(np.log(spread.low), np.log(spread.high), devices))
    return rng.uniform(spread.low, spread.high, devices)


def draw_samples(spread: Spread | str, devices: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Whole numbers of training samples a device, or None for "equal": what dividing the data set gives."""
    if isinstance(spread, str):
        return None
    return np.maximum(np.rint(draw(spread, devices, rng)), 1).astype(np.int64)


def build_fleet(
    settings: FleetSettings,
    samples: NDArray[np.int64],
    operations_per_sample: float,
    path_gain: Array,
    rng: np.random.Generator,
) -> Fleet:
    """The fleet for given data sizes, model cost and mean channels.

    Each quantity draws from a stream of its own: changing one leaves the others as they were.
    """
    cycles, frequency, power, budget = rng.spawn(4)
    devices = settings.devices
    return Fleet(
        samples=samples.astype(np.float64),
        cycles_per_sample=draw(settings.cycles_per_operation, devices, cycles) * operations_per_sample,
        max_frequency_hz=draw(settings.max_frequency_hz, devices, frequency),
        max_power_w=draw(settings.max_power_w, devices, power),
        budget_j=draw(settings.budget_j, devices, budget),
        path_gain=path_gain,
    )
