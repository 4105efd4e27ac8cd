"""Goals as people say them, and how far a choice is from them.

battery >= 2 years                            the first battery to be empty lasts so long
median battery >= 2 years                     half of them last so long (also: first, last)
95% of the devices once a day                 so many of all devices take part so often
95% of the devices 200 times within 30 days
200 turns per device within 30 days           in the mean over all devices
samples >= 100000 per day
round <= 30 s
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmafl.errors import InputError
from pmafl.planning.forecasts import Forecast, weighted_quantile

UNITS_DAYS = {
    "second": 1 / 86_400,
    "minute": 1 / 1_440,
    "hour": 1 / 24,
    "day": 1.0,
    "week": 7.0,
    "month": 365.25 / 12,
    "year": 365.25,
}
_NUMBER = r"(\d+(?:[.,_]\d+)*(?:e[+-]?\d+)?)"
_UNIT = r"(second|minute|hour|day|week|month|year)s?"
_TIMES = rf"(once|twice|{_NUMBER}\s*(?:times|x))"
_PERIOD = rf"(?:a|an|per|every|each|within|in)\s+(?:{_NUMBER}\s*)?{_UNIT}"
FORMS = (
    '"battery >= 2 years"',
    '"median battery >= 2 years"',
    '"95% of the devices once a day"',
    '"200 turns per device within 30 days"',
    '"samples >= 100000 per day"',
    '"round <= 30 s"',
)


@dataclass(frozen=True)
class Goal:
    """A goal.

    Attributes:
        text: as it was stated.
        measure: what is compared, of a choice, in units of what is wanted.
        show: the measured value for people.
        wanted: what the measured value must reach, for people.
        needs_batteries: whether it is about them.
    """

    text: str
    measure: Callable[[Forecast], float]
    show: Callable[[Forecast], str]
    wanted: str
    needs_batteries: bool = False

    def margin(self, forecast: Forecast) -> float:
        """How much more there is than is wanted, as part of what is wanted; below 0 where it is missed."""
        return self.measure(forecast) - 1

    def is_met(self, forecast: Forecast) -> bool:
        return self.margin(forecast) >= -1e-9


def parse_goal(text: str) -> Goal:
    """The goal that a sentence states; the module lists the forms."""
    sentence = " ".join(text.lower().replace("≥", ">=").replace("≤", "<=").split())
    for pattern, make in _PATTERNS:
        if match := re.fullmatch(pattern, sentence):
            goal: Goal = make(text.strip(), *match.groups())
            return goal
    raise InputError(f"goal {text[:80]!r} is not understood; it must be like {', '.join(FORMS)}")


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("_", ""))


def _positive(text: str, goal: str) -> float:
    if (value := _number(text)) <= 0:
        raise InputError(f"goal {goal!r}: {text} must be greater than 0")
    return value


def _battery(text: str, which: str | None, number: str, unit: str) -> Goal:
    which = which or "first"
    wanted_days = _positive(number, text) * UNITS_DAYS[unit]

    def days(forecast: Forecast) -> float:
        return float(getattr(forecast.lives, which))

    def show(forecast: Forecast) -> str:
        return f"the {which} battery lasts {in_words(days(forecast))}"

    return Goal(text, lambda forecast: days(forecast) / wanted_days, show, in_words(wanted_days), True)


def _share(text: str, percent: str, times: str, count: str | None, periods: str | None, unit: str) -> Goal:
    part = _number(percent) / 100
    if not 0 < part <= 1:
        raise InputError(f"goal {text!r}: {percent}% must be above 0% and at most 100%")
    wanted = {"once": 1.0, "twice": 2.0}.get(times) or _positive(count or "0", text)
    period_days = (_positive(periods, text) if periods else 1.0) * UNITS_DAYS[unit]

    def measure(forecast: Forecast) -> float:
        """How often those take part who take part least among the best `part` of all devices."""
        turns = weighted_quantile(-forecast.turns_per_day, forecast.copies, part)
        return -turns * period_days / wanted

    def show(forecast: Forecast) -> str:
        often = forecast.turns_per_day * period_days >= wanted * (1 - 1e-9)
        reached = float(forecast.copies[often].sum() / forecast.copies.sum())
        return f"{reached:.1%} of the devices do"

    return Goal(text, measure, show, f"{part:.4g} of the devices")


def _mean(text: str, number: str, periods: str | None, unit: str) -> Goal:
    wanted = _positive(number, text)
    period_days = (_positive(periods, text) if periods else 1.0) * UNITS_DAYS[unit]

    def turns(forecast: Forecast) -> float:
        return forecast.mean_turns_per_day * period_days

    def show(forecast: Forecast) -> str:
        return f"a device takes part {turns(forecast):.3g} times in the mean"

    return Goal(text, lambda forecast: turns(forecast) / wanted, show, f"{wanted:g} times")


def _samples(text: str, number: str, unit: str) -> Goal:
    wanted = _positive(number, text)
    days = UNITS_DAYS[unit]

    def show(forecast: Forecast) -> str:
        return f"{forecast.samples_per_day * days:,.0f} samples per {unit}"

    return Goal(text, lambda forecast: forecast.samples_per_day * days / wanted, show, f"{wanted:,.0f}")


def _round(text: str, number: str, unit: str | None) -> Goal:
    seconds = _positive(number, text) * (UNITS_DAYS[unit] * 86_400 if unit else 1.0)

    def show(forecast: Forecast) -> str:
        return f"a round takes {forecast.choice.deadline_s:g} s"

    return Goal(text, lambda forecast: seconds / forecast.choice.deadline_s, show, f"{seconds:g} s")


_PATTERNS: list[tuple[str, Callable[..., Goal]]] = [
    (rf"(?:(first|median|last) )?battery(?: life)? ?>=? ?{_NUMBER} ?{_UNIT}", _battery),
    (rf"{_NUMBER} ?% of (?:the |all )?devices {_TIMES} {_PERIOD}", _share),
    (rf"{_NUMBER} (?:participations?|turns|times) (?:a|per) device {_PERIOD}", _mean),
    (rf"samples ?>=? ?{_NUMBER} (?:a|per|every) {_UNIT}", _samples),
    (rf"(?:a )?round ?<=? ?{_NUMBER} ?(?:s|{_UNIT})", _round),
]


def in_words(days: float) -> str:
    """A time in the unit that people would use."""
    if not np.isfinite(days):
        return "for ever"
    for unit in ("year", "day", "hour"):
        if (value := days / UNITS_DAYS[unit]) >= (2 if unit != "hour" else 0):
            return f"{value:.3g} {unit}s"
    return f"{days:.3g} days"
