"""The answer to a round problem: who takes part, with what share of the band, what clock and what power.

A policy is a function of the problem and a random generator that gives a `Decision`. `decide` turns an
allocator's result into one with the formulas of the wireless room.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pmafl.allocation import Allocation
from pmafl.brief import brief
from pmafl.wireless import (
    Array,
    Index,
    Mask,
    RoundProblem,
    compute_energy,
    frequency,
    spectral_efficiency,
    upload_energy,
)


@brief
@dataclass(frozen=True, eq=False)
class Decision:
    """One round's decision; every array has one entry per device, 0 where the device is not scheduled.

    Attributes:
        policy: name of the policy that decided.
        scheduled: who takes part.
        bandwidth_share: share of the band, theta; they sum to at most 1.
        compute_time_s: the part of the deadline for computing.
        upload_time_s: the part of the deadline for uploading.
        frequency_hz: CPU clock.
        power_w: transmit power.
        compute_energy_j: what the CPU spends.
        upload_energy_j: what the transmitter spends.
        objective: -V*sum(D) + sum(q*E) over the scheduled devices.
        lower_bound: a value that no decision for this round can beat, where the policy knows one.
        gap: objective minus lower bound.
        dropped: whom the policy wanted, but had to leave out because they could not take part or did not fit
            the band together; None where it keeps no such account.
        awake_energy_j: what receiving, and circuits while the device is awake, cost; left out: nothing.
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
    dropped: Mask | None = None
    awake_energy_j: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if np.size(self.awake_energy_j) == 0:
            object.__setattr__(self, "awake_energy_j", np.zeros(np.size(self.scheduled)))

    @property
    def energy_j(self) -> Array:
        """Energy each device spends in the round."""
        return self.compute_energy_j + self.upload_energy_j + self.awake_energy_j

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

    @property
    def dropped_devices(self) -> list[int]:
        """Indices of the devices that the policy wanted but had to leave out."""
        return [] if self.dropped is None else [int(device) for device in np.flatnonzero(self.dropped)]


Plain = Callable[[RoundProblem, np.random.Generator], Decision]


class Priced(Protocol):
    """Devices with a queue and a worth each: a round problem, or a market of some of its devices."""

    @property
    def queue_j(self) -> Array: ...

    @property
    def value(self) -> Array: ...


def member_objective(priced: Priced, device: Index, energy_j: Array) -> Array:
    """What each scheduled device adds to the objective of the round, q*E - V*D; the less, the better."""
    return priced.queue_j[device] * energy_j - priced.value[device]


def decide(
    problem: RoundProblem, policy: str, allocation: Allocation, lower_bound: float | None = None
) -> Decision:
    """The decision that schedules the one set of `allocation` as allocated."""
    device = allocation.sets.device
    share = allocation.share
    work_time_s = problem.work_time_s[device]
    compute_time_s = allocation.compute_fraction * work_time_s
    upload_time_s = allocation.upload_fraction * work_time_s * (not problem.silent)
    work_cycles = problem.work_cycles[device]
    frequency_hz = frequency(compute_time_s, work_cycles)
    compute_energy_j = compute_energy(compute_time_s, work_cycles, problem.energy_coefficient)
    upload_energy_j = np.zeros_like(share)
    power_w = np.zeros_like(share)
    if not problem.silent:
        bits, gain = problem.sent_bits[device], problem.channel_gain[device]
        efficiency = spectral_efficiency(share, upload_time_s, bits, problem.bandwidth_hz)
        upload_energy_j = upload_energy(efficiency, gain, bits, problem.noise_w_per_hz)
        power_w = upload_energy_j / upload_time_s
    circuit_j = problem.circuit_power_w[device] * (compute_time_s + upload_time_s)
    awake_energy_j = problem.standing_energy_j[device] + circuit_j
    energy_j = compute_energy_j + upload_energy_j + awake_energy_j
    objective = float(np.sum(member_objective(problem, device, energy_j)))
    if lower_bound is not None:  # rounding may put a tight bound a hair above
        lower_bound = min(lower_bound, objective)

    def over_all(values: Array) -> Array:
        return _scatter(values, device, problem.devices)

    return Decision(
        policy=policy,
        scheduled=over_all(np.ones_like(share)) > 0,
        bandwidth_share=over_all(share),
        compute_time_s=over_all(compute_time_s),
        upload_time_s=over_all(upload_time_s),
        frequency_hz=over_all(np.minimum(frequency_hz, problem.max_frequency_hz[device])),
        power_w=over_all(np.minimum(power_w, problem.max_power_w[device])),
        compute_energy_j=over_all(compute_energy_j),
        upload_energy_j=over_all(upload_energy_j),
        objective=objective,
        lower_bound=lower_bound,
        gap=None if lower_bound is None else objective - lower_bound,
        awake_energy_j=over_all(awake_energy_j),
    )


def _scatter(values: Array, device: Index, devices: int) -> Array:
    result = np.zeros(devices)
    result[device] = values
    return result
