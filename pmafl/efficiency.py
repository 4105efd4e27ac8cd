"""How close a run comes to the best that any schedule could have done with its channels and budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmafl.brief import brief
from pmafl.errors import InputError
from pmafl.rounds import energy_of, play
from pmafl.scheduling.clairvoyant import Bound, clairvoyant
from pmafl.wireless import Array
from pmafl.world import World, channel_gains, outlook


@brief
@dataclass(frozen=True, eq=False)
class Efficiency:
    """A run against its bound.

    Attributes:
        policy: who scheduled.
        rounds: how many there were.
        samples: scheduled in all rounds.
        bound: the best possible.
        used: energy as a part of the device's whole budget, one entry per device.
        turns: rounds that each device took part in.
    """

    policy: str
    rounds: int
    samples: float
    bound: Bound
    used: Array
    turns: Array

    @property
    def share(self) -> float:
        """Scheduled samples as a share of the bound; above 1 only where budgets were exceeded."""
        return self.samples / self.bound.samples

    @property
    def spread(self) -> float:
        """Standard deviation of the turns over devices, as a part of their mean."""
        return float(self.turns.std() / self.turns.mean()) if self.turns.any() else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "rounds": self.rounds,
            "scheduled_samples": self.samples,
            "bound_samples": self.bound.samples,
            "fractional_bound_samples": self.bound.fractional_samples,
            "share_of_bound": self.share,
            "spread_of_turns": self.spread,
            "turns": self.turns.astype(int).tolist(),
            "used_of_budget": self.used.tolist(),
            "energy_price_samples_per_j": self.bound.energy_price.tolist(),
        }


def best_possible(world: World) -> Bound:
    """The bound for a world's channels and budgets, whatever its policy."""
    if world.settings.run.wireless == "none":
        raise InputError(
            'run.wireless = "none": without limits on band and energy there is nothing to judge; use "full"'
        )
    return clairvoyant(outlook(world).problem, channel_gains(world), world.fleet.budget_j)


def run_wireless(world: World) -> list[dict[str, Any]]:
    """The records of all rounds; for a world without learning."""
    return [record.to_dict() for _, record in play(world)]


def measure(world: World, records: Iterable[Mapping[str, Any]], bound: Bound) -> Efficiency:
    """Holds the records of a whole run against the bound of its world."""
    rounds, samples = world.settings.run.rounds, 0.0
    spent_j, turns = np.zeros(world.fleet.devices), np.zeros(world.fleet.devices)
    for record in records:
        devices = record["scheduled"]
        samples += record["scheduled_samples"]
        turns[devices] += 1
        spent_j[devices] += energy_of(record)
    used = spent_j / (rounds * world.fleet.budget_j)
    return Efficiency(world.settings.policy.name, rounds, samples, bound, used, turns)
