"""The answer to a round problem: who takes part, with what share of the band, what clock and what power."""

from dataclasses import dataclass

import numpy as np

from pmafl.wireless.problem import Array, Mask


@dataclass(frozen=True, eq=False)
class Decision:
    """One round's decision; every array has one entry per device, 0 where the device is not scheduled.

    Attributes:
        policy: name of the policy that decided.
        scheduled: who takes part.
        bandwidth_share: share of the band, theta; they sum to at most 1.
        compute_time_s, upload_time_s: how the deadline is divided.
        frequency_hz, power_w: CPU clock and transmit power.
        compute_energy_j, upload_energy_j: what the device spends.
        objective: -V*sum(D) + sum(q*E) over the scheduled devices.
        lower_bound: a value that no decision for this round can beat, where the policy knows one.
        gap: objective minus lower bound.
    """

    policy: str
    scheduled: Mask
    bandwidth_share: Array
    compute_time_s: Array
    upload_time_s: Array
    frequency_hz: Array
    power_w: Array
    compute_energy_j: Array
    upload_energy_j: Array
    objective: float
    lower_bound: float | None = None
    gap: float | None = None

    @property
    def energy_j(self) -> Array:
        """Energy each device spends in the round."""
        return self.compute_energy_j + self.upload_energy_j

    @property
    def relative_gap(self) -> float | None:
        """The gap as a part of the lower bound's size: 0.01 means that nothing is better by more than 1%."""
        if self.gap is None or self.lower_bound is None:
            return None
        return self.gap / abs(self.lower_bound) if self.gap else 0.0

    @property
    def scheduled_devices(self) -> list[int]:
        """Indices of the scheduled devices."""
        return [int(device) for device in np.flatnonzero(self.scheduled)]
