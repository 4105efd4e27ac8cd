"""The round problem: everything the server knows when it decides about one communication round.

It mirrors the JSON that `pmafl schedule` reads. Allocators and policies take it as it is, so its values are
checked here, once; whoever holds a `RoundProblem` may rely on them.
"""

from dataclasses import dataclass, field, fields
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pmafl.brief import brief
from pmafl.errors import InputError

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

# Far outside anything physical, and narrow enough that no product of them over- or underflows in the solvers.
SMALLEST, LARGEST = 1e-40, 1e15

_WHOLE = {"local_iterations": 1, "round": 0}  # with the least that they may be
_POSITIVE = ("bandwidth_hz", "noise_w_per_hz", "deadline_s", "max_frequency_hz", "max_power_w")
CELL_FIELDS = (
    "bandwidth_hz",
    "noise_w_per_hz",
    "deadline_s",
    "energy_coefficient",
    "local_iterations",
    "tradeoff",
    "round",
)
# One number stands for every device.
COMMON_FIELDS = (
    "upload_bits",
    "energy_cap_j",
    "available",
    "budget_j",
    "rounds_since",
    "last_loss",
    "circuit_power_w",
    "receive_energy_j",
    "download_time_s",
)


@brief
@dataclass(frozen=True, eq=False)
class RoundProblem:
    """One round: the cell, the task, and one entry per device in every array.

    Attributes:
        bandwidth_hz: the band shared by all uploads, B.
        noise_w_per_hz: noise power density, N0.
        deadline_s: time for receiving, computing and uploading together, T_max.
        energy_coefficient: CPU energy per cycle and squared frequency, kappa.
        local_iterations: passes over the local samples, tau.
        tradeoff: what a scheduled sample is worth against queue-weighted energy, V.
        samples: samples on the device, D.
        cycles_per_sample: CPU cycles per sample and iteration, C.
        max_frequency_hz: fastest CPU clock, f_max.
        max_power_w: strongest transmission, p_max.
        channel_gain: power gain to the server in this round, h; 0 means no connection.
        queue_j: virtual queue, the energy spent beyond the budget so far, q.
        upload_bits: what the device sends if it is scheduled, Q; one number stands for all devices. Where
            others upload, a device with 0 sends a single bit, to say that it is done.
        energy_cap_j: the most the device may spend in this round; infinite where left out.
        available: whether the device can be reached at all.
        budget_j: what the device may spend per round in the long run; NaN where unknown.
        rounds_since: how many rounds ago the device last took part, 1 for the last one; infinite where never.
        last_loss: the training loss that the device last reported; NaN where none.
        circuit_power_w: drawn while the device is awake, from the start of the round until its upload is
            done; the paper has none.
        receive_energy_j: what connecting and receiving cost a device that takes part, on top of the
            circuit's.
        download_time_s: time that receiving takes, before computing.
        round: the number of the round, from 0.
    """

    bandwidth_hz: float
    noise_w_per_hz: float
    deadline_s: float
    energy_coefficient: float
    local_iterations: int
    tradeoff: float
    samples: Array
    cycles_per_sample: Array
    max_frequency_hz: Array
    max_power_w: Array
    channel_gain: Array
    queue_j: Array
    upload_bits: Array
    energy_cap_j: Array = field(default_factory=lambda: np.array(np.inf))
    available: Mask = field(default_factory=lambda: np.array(True))
    budget_j: Array = field(default_factory=lambda: np.array(np.nan))
    rounds_since: Array = field(default_factory=lambda: np.array(np.inf))
    last_loss: Array = field(default_factory=lambda: np.array(np.nan))
    circuit_power_w: Array = field(default_factory=lambda: np.array(0.0))
    receive_energy_j: Array = field(default_factory=lambda: np.array(0.0))
    download_time_s: Array = field(default_factory=lambda: np.array(0.0))
    round: int = 0

    def __post_init__(self) -> None:
        devices = np.size(self.samples)
        if devices == 0:
            raise InputError("the problem has no devices; at least one is needed")
        for name in (entry.name for entry in fields(self)):
            shape = () if name in CELL_FIELDS else (devices,)
            value = _checked(name, getattr(self, name), shape)
            object.__setattr__(self, name, value if shape else value.item())
        for name in _WHOLE:
            object.__setattr__(self, name, int(getattr(self, name)))

    @property
    def devices(self) -> int:
        """Number of devices, K."""
        return self.samples.size

    @property
    def work_cycles(self) -> Array:
        """CPU cycles of one round on each device, tau*D*C."""
        return self.local_iterations * self.samples * self.cycles_per_sample

    @property
    def work_time_s(self) -> Array:
        """What receiving leaves of the deadline for computing and uploading; below 0 where it is longer."""
        return self.deadline_s - self.download_time_s

    @property
    def standing_energy_j(self) -> Array:
        """What taking part costs each device before it computes: receiving, with its circuits awake."""
        return self.receive_energy_j + self.circuit_power_w * self.download_time_s

    @property
    def silent(self) -> bool:
        """Whether nobody uploads anything."""
        return not self.upload_bits.any()

    @property
    def sent_bits(self) -> Array:
        """What each device really sends: where others upload, at least a single bit."""
        return self.upload_bits if self.silent else np.maximum(self.upload_bits, 1.0)

    @property
    def value(self) -> Array:
        """What scheduling each device is worth in the round objective, V*D."""
        return self.tradeoff * self.samples


def usable_gain(gain: Array) -> Array:
    """Channel power gains as a problem takes them: one that is too weak for anything is no connection, 0."""
    return np.where(gain < SMALLEST, 0.0, gain)


def _checked(name: str, raw: object, shape: tuple[int, ...]) -> Array:
    try:
        value = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {raw!r:.80}; it must be a number for each device") from None
    if name in COMMON_FIELDS and value.shape == ():
        value = np.broadcast_to(value, shape)
    if value.shape != shape:
        raise InputError(f"{name} has shape {value.shape}; it must be {shape or 'a single number'}")
    if name == "available":
        return value.astype(bool)
    for at, fault in wrong_values(name, value, most=1).items():
        where = f" of device {at}" if shape else ""
        raise InputError(f"{name}{where} {fault}")
    return value


def wrong_values(name: str, value: Array, most: int | None = None) -> dict[int, str]:
    """The entries that may not stand in a field, or the first `most` of them, each with what to say of it."""
    least, greatest, zero, whole, _ = limits(name)
    if value.size and not whole:  # most often all is well, and two numbers show it
        lowest, highest = value.min(), value.max()
        if (least <= lowest and highest <= greatest) or (zero and lowest == highest == 0):
            return {}
    allowed, right = _allowed(name, value)
    wrong = np.flatnonzero(~allowed)[:most]
    return {int(at): f"is {value.flat[at]:g}; it must be {right}" for at in wrong}


class Limits(NamedTuple):
    """What may stand in a field: numbers from `least` to `most`, and what else is said here."""

    least: float
    most: float
    zero: bool = False  # 0 too
    whole: bool = False  # whole numbers alone
    unknown: bool = False  # NaN too


@cache
def limits(name: str) -> Limits:
    """What may stand in the field `name`, a number."""
    if name in _WHOLE:
        return Limits(_WHOLE[name], LARGEST, whole=True)
    if name == "energy_cap_j":
        return Limits(0, np.inf)
    if name == "rounds_since":
        return Limits(1, np.inf)
    if name == "upload_bits":
        return Limits(1, LARGEST, zero=True)
    return Limits(SMALLEST, LARGEST, zero=name not in _POSITIVE, unknown=name in ("budget_j", "last_loss"))


def _allowed(name: str, value: Array) -> tuple[Mask, str]:
    """Which values may stand in a field, and what to say of the others."""
    least, most, zero, whole, unknown = limits(name)
    allowed = (value >= least) & (value <= most)
    if whole:
        return allowed & (value == np.floor(value)), f"a whole number from {least:g}"
    if zero:
        allowed |= value == 0
    if unknown:
        allowed |= np.isnan(value)
    if most == np.inf:
        return allowed, f"{least:g} or more"
    if least == 1:
        return allowed, f"0, or from 1 to {most:g}"
    right = ("0 or " if zero else "") + f"a number from {least:g} to {most:g}"
    return allowed, right + (", or NaN where unknown" if unknown else "")
