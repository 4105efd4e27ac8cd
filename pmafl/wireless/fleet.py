"""The devices as arrays: what each one holds, computes, transmits and may spend.

Settings describe a fleet as numbers, lists or distributions; here they become one array a quantity. What the
channel does to the devices stands in `cell`, what a round costs them in `cpu` and `radio`.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pmafl.brief import brief
from pmafl.settings import FleetSettings
from pmafl.spreads import draw
from pmafl.wireless.problem import Array

# What a fleet may be made without: 0 for all.
_LEFT_OUT = ("circuit_power_w", "receive_power_w", "connect_energy_j", "sleep_power_w", "battery_j")


@brief
@dataclass(frozen=True)
class Fleet:
    """One entry per device in every array.

    Attributes:
        samples: training samples D.
        cycles_per_sample: CPU cycles C for one sample in one local iteration.
        max_frequency_hz: fastest CPU clock.
        max_power_w: largest transmit power.
        budget_j: long-term energy budget a round.
        path_gain: mean channel power gain.
        circuit_power_w: drawn while awake, beside CPU and transmitter.
        receive_power_w: drawn while receiving, on top of the circuit's.
        connect_energy_j: of waking up and connecting, for a device that takes part.
        sleep_power_w: drawn all the time, outside of learning and of its budget.
        battery_j: what a full battery holds; 0 where unknown.
    """

    samples: Array
    cycles_per_sample: Array
    max_frequency_hz: Array
    max_power_w: Array
    budget_j: Array
    path_gain: Array
    circuit_power_w: Array = field(default_factory=lambda: np.array(0.0))
    receive_power_w: Array = field(default_factory=lambda: np.array(0.0))
    connect_energy_j: Array = field(default_factory=lambda: np.array(0.0))
    sleep_power_w: Array = field(default_factory=lambda: np.array(0.0))
    battery_j: Array = field(default_factory=lambda: np.array(0.0))

    def __post_init__(self) -> None:
        for name in _LEFT_OUT:
            if np.ndim(value := getattr(self, name)) == 0:
                object.__setattr__(self, name, np.full(self.devices, float(value)))

    @property
    def devices(self) -> int:
        return int(self.samples.size)


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
    cycles, frequency, power, budget, *more = rng.spawn(4 + len(_LEFT_OUT))
    devices = settings.devices
    return Fleet(
        samples=samples.astype(np.float64),
        cycles_per_sample=draw(settings.cycles_per_operation, devices, cycles) * operations_per_sample,
        max_frequency_hz=draw(settings.max_frequency_hz, devices, frequency),
        max_power_w=draw(settings.max_power_w, devices, power),
        budget_j=draw(settings.budget_j, devices, budget),
        path_gain=path_gain,
        **{
            name: draw(getattr(settings, name), devices, own)
            for name, own in zip(_LEFT_OUT, more, strict=True)
        },
    )
