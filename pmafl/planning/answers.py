"""The answer to a request: what every choice brings, which to take, and what more of anything would bring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pmafl.brief import brief
from pmafl.errors import InputError
from pmafl.planning.feasibility import REASONS, Feasibility, find_reasons
from pmafl.planning.forecasts import (
    ONE_BY_ONE,
    REPRESENTATIVES,
    Devices,
    Forecast,
    Lives,
    Worth,
    forecast,
    make_devices,
    optimise,
    worth,
)
from pmafl.planning.goals import Goal, in_words
from pmafl.planning.learning import Curve, Expectation
from pmafl.planning.request import Choice, Request
from pmafl.progress import report

ALIKE = 1e-3  # part by which two choices must differ to be told apart
MORE = 0.1  # of a resource: what prices are stated for
SEARCH = 5  # halvings (of logarithms), to find by how much a resource may shrink
LEAST_PART = 0.05  # of a resource: goals that hold with so little do not need it
RESOURCES = {"band": "band", "energy": "energy", "time": "time"}


@brief
@dataclass(frozen=True, eq=False)
class Answer:
    """What was found.

    Attributes:
        request: the question.
        forecasts: of all choices.
        best: which of them nothing beats in samples per day, battery life and time of a round.
        goals: what was asked for.
        met: which choices meet all of them.
        recommended: the choice to take; None where no goal was stated, or none is met.
        detail: the recommended choice, else the nearest to the goals, looked at device by device.
        feasibility: who takes part under it, and why others do not.
        worth: what more of the band, the budgets and the deadline would bring.
        slack: the parts of band, energy and time with which the goals are still met.
        curve: of accuracy by turns, where a run showed it.
    """

    request: Request
    forecasts: tuple[Forecast, ...]
    best: tuple[bool, ...]
    goals: tuple[Goal, ...]
    met: tuple[bool, ...]
    recommended: int | None
    detail: Forecast
    feasibility: Feasibility
    worth: Worth
    slack: dict[str, float] = field(default_factory=dict)
    curve: Curve | None = None

    @property
    def shown(self) -> int:
        """The choice that is looked at closely."""
        return next(i for i, one in enumerate(self.forecasts) if one.choice == self.detail.choice)

    def prices(self) -> dict[str, float]:
        """By which part the samples grow with a part more of each resource, at the margin."""
        per_round = max(self.forecasts[self.shown].optimum.samples, 1e-300)
        return {name: getattr(self.worth, name) / per_round for name in RESOURCES}

    def sentences(self) -> list[str]:
        """The prices in words."""
        what = {"band": "band", "energy": "energy budget", "time": "time per round"}
        return [
            f"{MORE:.0%} more {what[name]}: {_percent(MORE * elasticity)} more samples"
            for name, elasticity in self.prices().items()
        ]

    def expectation(self, one: Forecast) -> Expectation | None:
        return self.curve.after(one.mean_turns_per_day * self.request.days) if self.curve else None

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it; docs/plan.md describes it."""
        detail, reasons = self.detail, self.feasibility
        return {
            "devices": round(detail.optimum.devices.count),
            "days": self.request.days,
            "goals": [
                {
                    "goal": goal.text,
                    "met": goal.is_met(detail),
                    "margin": _finite(goal.margin(detail)),
                    "reached": goal.show(detail),
                }
                for goal in self.goals
            ],
            "recommended": self.recommended,
            "shown": self.shown,
            "choices": [
                {**self._choice(one), "best": best, "meets_goals": met if self.goals else None}
                for one, best, met in zip(self.forecasts, self.best, self.met, strict=True)
            ],
            "detail": {
                **self._choice(detail),
                "taking_part": reasons.count(""),
                "unable": {reason: reasons.count(reason) for reason in REASONS},
                "reasons": REASONS,
                "rings": reasons.rings(),
                "prices": {name: _finite(value) for name, value in self.prices().items()},
                "prices_in_words": self.sentences(),
                "goals_hold_down_to": self.slack,
            },
            "learning": self.curve.to_dict() if self.curve else None,
        }

    def _choice(self, one: Forecast) -> dict[str, Any]:
        choice = {name: value for name, value in vars(one.choice).items() if value is not None}
        expected = self.expectation(one)
        return {
            "choice": choice,
            "devices_per_round": one.devices_per_round,
            "samples_per_day": one.samples_per_day,
            "turns_per_device_day": one.mean_turns_per_day,
            "energy_per_device_round_j": one.energy_per_device_round_j,
            "energy_per_turn_j": one.energy_per_turn_j,
            "battery_days": _days(one.lives),
            "battery_days_without_learning": _days(one.lives_without),
            "air_time_s_per_day": one.air_time_s_per_day,
            "band_used": one.band_used,
            "accuracy": expected.to_dict() if expected else None,
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _days(lives: Lives | None) -> dict[str, float | None] | None:
    return None if lives is None else {name: _finite(value) for name, value in lives._asdict().items()}


def _percent(part: float) -> str:
    return f"{part:.0%}" if part >= 0.0995 else f"{max(part, 0.0):.1%}"


def answer(request: Request, goals: Sequence[Goal] = (), curve: Curve | None = None) -> Answer:
    """Works out every choice and looks closely at the one to take."""
    everyone = make_devices(request)
    devices, some = everyone.some(ONE_BY_ONE), everyone.some(REPRESENTATIVES)
    for goal in goals:
        if goal.needs_batteries and not devices.fleet.battery_j.any():
            raise InputError(f"goal {goal.text!r} needs batteries; give fleet.battery_wh or fleet.battery_j")
    forecasts = _forecasts(request, some)
    met = tuple(all(goal.is_met(one) for goal in goals) for one in forecasts)
    shown = _choose(forecasts, goals, met)
    rounds = _rounds(request)
    choice = forecasts[shown].choice
    optimum = optimise(devices, choice, rounds, partial(report, "the choice to take"))
    detail = forecast(choice, optimum)
    slack: dict[str, float] = {}
    if goals and met[shown]:
        slack = _slack(devices.some(REPRESENTATIVES // 3), choice, goals, rounds)
    return Answer(
        request=request,
        forecasts=forecasts,
        best=unbeaten(forecasts),
        goals=tuple(goals),
        met=met,
        recommended=shown if goals and met[shown] else None,
        detail=detail,
        feasibility=find_reasons(detail, request.days),
        worth=worth(forecasts[shown].optimum, rounds),
        slack=slack,
        curve=curve,
    )


def _rounds(request: Request) -> float:
    """All rounds of the time planned for, at the most that there may be."""
    return request.days * max(choice.rounds_per_day for choice in request.choices)


def _forecasts(request: Request, devices: Devices) -> tuple[Forecast, ...]:
    """Each different round is optimised once, however often it may take place."""
    optima = {}
    rounds = dict.fromkeys(choice.round for choice in request.choices)
    for index, choice in enumerate(rounds):
        report("choices", index / len(rounds))
        optima[choice] = optimise(devices, choice, _rounds(request))
    return tuple(forecast(choice, optima[choice.round]) for choice in request.choices)


def _choose(forecasts: Sequence[Forecast], goals: Sequence[Goal], met: Sequence[bool]) -> int:
    """The most samples per day among those that meet the goals; else the one that misses them by least.

    Of choices that are alike in this, the one with less band and shorter rounds, which are of use to others.
    """

    def largest(among: Iterable[int], value: Callable[[Forecast], float]) -> list[int]:
        values = {index: value(forecasts[index]) for index in among}
        best = max(values.values())
        return [index for index, own in values.items() if own >= best - 2 * ALIKE * abs(best)]

    among = [index for index in range(len(forecasts)) if met[index]]
    if not among:
        among = largest(range(len(forecasts)), lambda one: min(goal.margin(one) for goal in goals))
    alike = largest(among, lambda one: one.samples_per_day)
    return min(alike, key=lambda i: (forecasts[i].choice.band_share, forecasts[i].choice.deadline_s))


def unbeaten(forecasts: Sequence[Forecast]) -> tuple[bool, ...]:
    """Which choices no other beats in samples per day, battery life and time of a round, all at once."""

    def life(one: Forecast) -> float:
        if one.lives is not None:
            return min(one.lives.first, 1e9)
        return -one.energy_per_device_round_j * one.choice.rounds_per_day

    scores = np.array([(one.samples_per_day, life(one), -one.choice.deadline_s) for one in forecasts])
    close = ALIKE * np.abs(scores).max(axis=0, initial=1e-300)
    result = []
    for index, own in enumerate(scores):
        as_good = (scores >= own - close / 100).all(axis=1)
        better = (scores > own + close).any(axis=1)
        as_good[index] = False
        result.append(not (as_good & better).any())
    return tuple(result)


def _slack(devices: Devices, choice: Choice, goals: Sequence[Goal], rounds: float) -> dict[str, float]:
    """With which part of each resource alone the goals are still met, to a few percent; 0: with any."""

    def holds(name: str, part: float) -> bool:
        if name == "band":
            changed, fewer = replace(choice, band_share=choice.band_share * part), devices
        elif name == "time":
            changed, fewer = replace(choice, deadline_s=choice.deadline_s * part), devices
        else:
            budget_j = devices.fleet.budget_j if choice.budget_j is None else choice.budget_j
            budgets_j = np.full(devices.copies.size, part) * budget_j
            changed = replace(choice, budget_j=None)
            fewer = replace(devices, fleet=replace(devices.fleet, budget_j=budgets_j))
        one = forecast(changed, optimise(fewer, changed, rounds))
        return all(goal.is_met(one) for goal in goals)

    found = {}
    for index, name in enumerate(RESOURCES):
        report("how far from infeasible", index / len(RESOURCES))
        low, high = LEAST_PART, 1.0
        if holds(name, low):
            found[name] = 0.0
            continue
        for _ in range(SEARCH):
            middle = (low * high) ** 0.5
            low, high = (low, middle) if holds(name, middle) else (middle, high)
        found[name] = high
    return found


__all__ = ["Answer", "answer", "in_words", "unbeaten"]
