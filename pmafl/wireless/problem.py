"""The round problem: everything the server knows when it decides about one communication round.

It mirrors the JSON that `pmafl schedule` reads. Allocators and policies take it as it is, so its values are
checked here, once; whoever holds a `RoundProblem` may rely on them.
"""

from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from pmafl.brief import brief
from pmafl.errors import InputError

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

# Far outside anything physical, and narrow enough that no product of them over- or underflows in the solvers.
SMALLEST, LARGEST = 1e-40, 1e15

_POSITIVE = ("bandwidth_hz", "noise_w_per_hz", "deadline_s", "max_frequency_hz", "max_power_w")
CELL_FIELDS = (
    "bandwidth_hz",
    "noise_w_per_hz",
    "deadline_s",
    "upload_bits",
    "energy_coefficient",
    "local_iterations",
    "tradeoff",
)


@brief
@dataclass(frozen=True, eq=False)
class RoundProblem:
    """One round: the cell, the task, and one entry per device in every array.

    Attributes:
        bandwidth_hz: the band shared by all uploads, B.
        noise_w_per_hz: noise power density, N0.
        deadline_s: time for computing and uploading together, T_max.
        upload_bits: what each scheduled device sends, Q; 0 means that nothing is uploaded.
        energy_coefficient: CPU energy per cycle and squared frequency, kappa.
        local_iterations: passes over the local samples, tau.
        tradeoff: what a scheduled sample is worth against queue-weighted energy, V.
        samples: samples on the device, D.
        cycles_per_sample: CPU cycles per sample and iteration, C.
        max_frequency_hz: fastest CPU clock, f_max.
        max_power_w: strongest transmission, p_max.
        channel_gain: power gain to the server in this round, h; 0 means no connection.
        queue_j: virtual queue, the energy spent beyond the budget so far, q.
        energy_cap_j: the most the device may spend in this round; infinite where left out.
    """

    bandwidth_hz: float
    noise_w_per_hz: float
    deadline_s: float
    upload_bits: float
    energy_coefficient: float
    local_iterations: int
    tradeoff: float
    samples: Array
    cycles_per_sample: Array
    max_frequency_hz: Array
    max_power_w: Array
    channel_gain: Array
    queue_j: Array
    energy_cap_j: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        devices = np.size(self.samples)
        if devices == 0:
            raise InputError("the problem has no devices; at least one is needed")
        if np.size(self.energy_cap_j) == 0:
            object.__setattr__(self, "energy_cap_j", np.full(devices, np.inf))
        for name in (entry.name for entry in fields(self)):
            shape = () if name in CELL_FIELDS else (devices,)
            value = _checked(name, getattr(self, name), shape)
            object.__setattr__(self, name, value if shape else value.item())
        iterations = self.local_iterations
        if iterations < 1 or iterations != int(iterations):
            raise InputError(f"local_iterations is {iterations:g}; it must be a whole number from 1")
        object.__setattr__(self, "local_iterations", int(iterations))
        if 0 < self.upload_bits < 1:
            raise InputError(f"upload_bits is {self.upload_bits:g}; it must be 0 or at least 1")

    @property
    def devices(self) -> int:
        """Number of devices, K."""
        return self.samples.size

    @property
    def work_cycles(self) -> Array:
        """CPU cycles of one round on each device, tau*D*C."""
        return self.local_iterations * self.samples * self.cycles_per_sample

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
    if value.shape != shape:
        raise InputError(f"{name} has shape {value.shape}; it must be {shape or 'a single number'}")
    zero = "" if name in _POSITIVE else "0 or "
    allowed = (value >= SMALLEST) & (value <= LARGEST) | (value == 0) & bool(zero)
    if name == "energy_cap_j":
        allowed = value >= 0
    if not allowed.all():
        at = int(np.argmin(allowed))
        where = f" of device {at}" if shape else ""
        right = f"{zero}a number from {SMALLEST:g} to {LARGEST:g}"
        raise InputError(f"{name}{where} is {value.flat[at]:g}; it must be {right}")
    return value
