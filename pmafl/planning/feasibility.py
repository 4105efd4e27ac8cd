"""Who can take part at all, who cannot and why: time, power, energy, or others who come first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmafl.allocation import frontiers
from pmafl.planning.forecasts import Forecast, battery_days, cap_of, gain_at, weighted_quantile
from pmafl.wireless import Array, Mask, fastest_time, min_share

RINGS = 5
# Why a device does not take part, in the order in which they are looked for.
REASONS = {
    "deadline": "receiving and computing alone take longer than the deadline",
    "power": "the strongest transmission over the whole band is too weak in any channel",
    "budget": "taking part once, in the best channel, costs more than the budget of all rounds",
    "band": "the others make better use of the band: it takes part less than once in all that time",
}


@dataclass(frozen=True, eq=False)
class Feasibility:
    """Who takes part.

    Attributes:
        reason: why a device does not, one entry per device; "" where it does.
        forecast: of the choice that this is about.
    """

    reason: Any
    forecast: Forecast

    @property
    def able(self) -> Mask:
        """Who could take part at all."""
        mask: Mask = (self.reason == "") | (self.reason == "band")
        return mask

    def count(self, reason: str, where: Mask | None = None) -> int:
        chosen = self.reason == reason if where is None else (self.reason == reason) & where
        return round(float(self.forecast.copies[chosen].sum()))

    def rings(self) -> list[dict[str, Any]]:
        """Rings around the server with equally many devices, and what happens in each."""
        forecast = self.forecast
        devices, distance_m = forecast.optimum.devices, forecast.optimum.devices.distance_m
        edges = np.unique(np.quantile(distance_m, np.linspace(0, 1, min(RINGS, distance_m.size) + 1)))
        ring = np.clip(np.searchsorted(edges, distance_m, side="right") - 1, 0, max(edges.size - 2, 0))
        energy_j = forecast.optimum.response.energy_j
        days = battery_days(devices, energy_j * forecast.choice.rounds_per_day)
        known = devices.fleet.battery_j > 0
        rows = []
        for index in range(max(edges.size - 1, 1)):
            here = ring == index
            weight = devices.copies[here]
            row: dict[str, Any] = {
                "from_m": float(edges[index]),
                "to_m": float(edges[min(index + 1, edges.size - 1)]),
                "devices": round(float(weight.sum())),
                "taking_part": self.count("", here),
                **{reason: self.count(reason, here) for reason in REASONS},
                "turns_per_day": _mean(forecast.turns_per_day[here], weight),
                "energy_per_device_round_j": _mean(energy_j[here], weight),
            }
            if (dated := here & known).any():
                row["median_battery_days"] = weighted_quantile(days[dated], devices.copies[dated], 0.5)
            rows.append(row)
        return rows


def _mean(values: Array, weight: Array) -> float:
    return float(np.average(values, weights=weight)) if weight.sum() > 0 else 0.0


def find_reasons(forecast: Forecast, days: float) -> Feasibility:
    """Why devices cannot take part, or do not, over so many days."""
    optimum, rounds = forecast.optimum, forecast.choice.rounds_per_day * days
    problem = optimum.problem
    best = replace(
        problem,
        channel_gain=gain_at(optimum.devices, optimum.devices.best_fading),
        energy_cap_j=cap_of(problem, rounds),
    )
    unable = {
        "deadline": fastest_time(best) >= best.work_time_s,
        "power": min_share(best) > 1,
        "budget": frontiers(best).min_share > 1,
        "band": optimum.response.turns * rounds < 1,
    }
    reason = np.full(problem.devices, "", dtype="<U8")
    for name, mask in reversed(unable.items()):
        reason[mask] = name
    return Feasibility(reason, forecast)
