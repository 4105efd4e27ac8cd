"""What the bound promises for a schedule, and what that is worth: vacuous, violated, outside the theorem.

Two forms stand side by side: with the measured Polyak-Lojasiewicz constant mu, which the proof allows, and as
printed with mu = L_u, which it does not (docs/theory.md).
"""

from dataclasses import dataclass, replace

from pmafl.errors import NoAnswer
from pmafl.settings import LearningSettings
from pmafl.theory.constants import Array, Constants
from pmafl.theory.measurement import Measurement, lowest_bound

SOUND, PRINTED = "with the measured mu", "as printed"


@dataclass(frozen=True)
class Promise:
    """The bound on the global training loss after 0, 1, ..., T rounds of one schedule.

    scheduled_share: part of all samples that each round schedules.
    losses: the bound in each form; a form in which the theorem says nothing is missing.
    constants: those of each form; delta and rho are chosen to make it lowest.
    remarks: what a reader should know before believing it.
    """

    name: str
    scheduled_share: Array
    losses: dict[str, Array]
    constants: dict[str, Constants]
    remarks: list[str]


def promise(name: str, constants: Constants, found: Measurement, scheduled_samples: Array) -> Promise:
    """The bound for `scheduled_samples` (one number per round) from the losses that were measured."""
    losses, used, remarks = {}, {}, []
    for form, taken in ((SOUND, constants), (PRINTED, replace(constants, pl_constant=None))):
        try:
            used[form], bound = lowest_bound(taken, found, scheduled_samples)
        except NoAnswer as reason:
            remarks.append(f"{form}: {reason}")
            continue
        losses[form] = bound.loss
        remarks.append(
            f"{form}: {_worth(bound.loss)} (rho {used[form].rho:.3g}, delta {used[form].delta:.3g})"
        )
    share = scheduled_samples / found.samples.sum()
    if share.max() <= 0.5:
        remarks.append("no round schedules more than half of the samples: no true constants let it fall")
    return Promise(name, share, losses, used, remarks)


def _worth(bound: Array) -> str:
    rounds, start, last = len(bound) - 1, float(bound[0]), float(bound[-1])
    if last >= start:
        return (
            f"vacuous, it allows a loss of {last:.4g} after {rounds} rounds, "
            f"{last / start:.4g} times the {start:.4g} at the start"
        )
    return f"a loss of at most {last:.4g} after {rounds} rounds, from {start:.4g} at the start"


def against_losses(kept: Promise, found: Measurement) -> list[str]:
    """What the measured losses say about the bound of the schedule that they were measured under."""
    remarks = [f"measured: the training loss went from {found.losses[0]:.4g} to {found.losses[-1]:.4g}"]
    for form, bound in kept.losses.items():
        above = found.losses > bound[found.rounds.astype(int)] * (1 + 1e-6)
        if above.any():
            first = int(found.rounds[above][0])
            remarks.append(
                f"{form}: violated at {above.sum()} of {above.size} points, first after round {first}, "
                f"so its assumptions do not hold in this run"
            )
    return remarks


def departures(learning: LearningSettings) -> list[str]:
    """What the training did that the theorem, one plain gradient step a round, does not cover."""
    steps = learning.iterations > 1 or learning.batch_size > 0
    found = {
        f"the algorithm {learning.algorithm}": learning.algorithm not in ("pma", "fedavg"),
        f"{learning.iterations} local iterations": learning.iterations > 1,
        f"mini-batches of {learning.batch_size}": learning.batch_size > 0,
        f"momentum {learning.momentum:g}": learning.momentum > 0 and steps,
        f"uploads of {learning.upload_bits_per_parameter} bits": learning.upload == "rounding"
        and learning.upload_bits_per_parameter < 32,
        f"uploads by {learning.upload}": learning.upload != "rounding",
        f"{learning.precision} arithmetic": learning.precision != "fp32",
    }
    return [name for name, present in found.items() if present]
