"""What a device can truthfully say about itself and its round: physics, the settings and its own words.

`messages.py` checks the form of a reply, this module its content. Whatever passes both is something that a
round problem takes, and that no real device would be wronged by; whatever does not is `Refused`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pmafl.flower.messages import Order, Profile, Refused, Report, Score
from pmafl.wireless import LARGEST, SMALLEST
from pmafl.world import World

BELIEVED_FACTOR = 1000.0  # by which a device may differ from the settings' fleet, upwards or downwards
ENERGY_FACTOR = 10.0  # a counter sees a whole machine, the model its CPU alone
CLOCK_TOLERANCE = 0.1  # clocks of devices do not run alike
REPEATED = 1e-6  # relative error of a number that a device was told and only repeats
DRAWN = ("circuit_power_w", "receive_power_w")  # may be nothing, and no more than a transmitter may draw
DECLARED = ("samples", "cycles_per_sample", "max_frequency_hz", "max_power_w", "budget_j", *DRAWN)


@dataclass(frozen=True)
class Limits:
    """The limits of one run.

    Attributes:
        devices: how many there are.
        declared: smallest and largest value of each quantity that a device may declare.
        most_gain: channel power gain that nobody exceeds.
        energy_coefficient, local_iterations: of the model of the CPU, kappa and tau.
        deadline_s: time of a round.
        timeout_s: how long the server waits for an answer.
        most_score: of a test; an accuracy is at most 1, an error has no such limit.
    """

    devices: int
    declared: Mapping[str, tuple[float, float]]
    most_gain: float
    energy_coefficient: float
    local_iterations: int
    deadline_s: float
    timeout_s: float
    most_score: float = 1.0

    def check_profile(self, profile: Profile) -> None:
        """A device there is, quantities within `BELIEVED_FACTOR` of the settings', a passive channel."""
        if not 0 <= profile.device < self.devices:
            raise Refused(f"it says it is device {profile.device}; there are 0 to {self.devices - 1}")
        for name, (least, most) in self.declared.items():
            _within(name, getattr(profile, name), least, most)
        if profile.channel_gain:  # 0 is no connection
            _within("channel_gain", profile.channel_gain, SMALLEST, self.most_gain)

    def check_report(self, report: Report, profile: Profile, order: Order) -> None:
        r"""Not longer than the server waited, and no more energy than CPU and radio can turn into heat.

        .. math:: E^L \le 10 \, \kappa w f_{max}^2, \qquad E^U \le 10 \, p_{max} T_{max}

        A device without a meter repeats the energies of its order.
        """
        _within("train_time_s", report.train_time_s, 0.0, (1 + CLOCK_TOLERANCE) * self.timeout_s)
        _within("measured", report.measured, 0, 1)
        work_cycles = self.local_iterations * profile.samples * profile.cycles_per_sample
        most = {
            "compute_energy_j": self.energy_coefficient * work_cycles * profile.max_frequency_hz**2,
            "upload_energy_j": profile.max_power_w * self.deadline_s,
        }
        for name, most_j in most.items():
            said_j, ordered_j = getattr(report, name), getattr(order, name)
            _within(name, said_j, 0.0, ENERGY_FACTOR * most_j)
            if not report.measured and not math.isclose(said_j, ordered_j, rel_tol=REPEATED):
                raise Refused(f"its {name} is {said_j:g} without a meter; the order's is {ordered_j:g}")

    def check_score(self, score: Score) -> None:
        _within("accuracy" if self.most_score == 1.0 else "error", score.accuracy, 0.0, self.most_score)


def limits_of(world: World, timeout_s: float) -> Limits:
    """The limits that follow from a run's settings; `world` must not know yet what devices said."""
    declared = {}
    for name in DECLARED:
        values = getattr(world.fleet, name)
        least, most = float(values.min()) / BELIEVED_FACTOR, float(values.max()) * BELIEVED_FACTOR
        declared[name] = (max(least, 1.0 if name == "samples" else SMALLEST), min(most, LARGEST))
    for name in DRAWN:
        declared[name] = (0.0, max(declared[name][1], declared["max_power_w"][1]))
    return Limits(
        devices=world.fleet.devices,
        declared=declared,
        most_gain=min(max(1.0, BELIEVED_FACTOR * float(world.channel.mean_gain.max())), LARGEST),
        energy_coefficient=world.settings.fleet.energy_coefficient,
        local_iterations=world.costs.charged_iterations,
        deadline_s=world.settings.cell.deadline_s,
        timeout_s=timeout_s,
        most_score=LARGEST if world.method and world.method.model.objective.regression else 1.0,
    )


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise Refused(f"its {name} is {value:g}; possible is {least:g} to {most:g}")
