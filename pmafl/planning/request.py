"""What is asked: a file of settings with one more section, ``[plan]``, of what is free to choose.

Everything else in the file is what `pmafl run` takes, so a choice is a complete run too. What a plan has no
use for, such as rates of learning and a data set, may be left out; batteries may be given in watt-hours, and
work as cycles.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError

from pmafl.errors import InputError
from pmafl.settings import DAY_S, Positive, Section, Settings, build, load_tree

MOST_CHOICES = 2000
MOST_STEPS = 100
ROOMY_S = 1e9  # no deadline at all, where devices are only to be made
JOULES_PER_WH = 3600.0
# What a plan has no use for, but a run needs.
UNUSED: dict[str, dict[str, Any]] = {
    "data": {"dataset": "none", "partition": "iid"},
    "policy": {"tradeoff": 1.0},
    "run": {"rounds": 200, "seed": 1},
    "learning": {
        "algorithm": "pma",
        "model": "mlp",
        "extractor_rate": 0.05,
        "predictor_rate": 0.05,
        "momentum": 0.0,
    },
}
FORMS = "a number, a list of numbers, or {low = ..., high = ..., steps = ...}"


def _free(whole: bool = False, most: float = float("inf")) -> BeforeValidator:
    """Validate what is free: its values, rising."""

    def check(raw: Any) -> tuple[float, ...]:
        if isinstance(raw, Mapping):
            values = _steps(raw, whole)
        elif isinstance(raw, list | tuple):
            values = [_value(item) for item in raw]
        else:
            values = [_value(raw)]
        if not values:
            raise ValueError(f"is an empty list; it must be {FORMS}")
        if any(value < 0 or (value == 0 and not whole) or value > most for value in values):
            limit = f" and at most {most:g}" if most < float("inf") else ""
            raise ValueError(f"must be {'0 or more' if whole else 'greater than 0'}{limit}")
        if whole and any(value != int(value) for value in values):
            raise ValueError("must be whole numbers")
        return tuple(sorted(set(values)))

    return BeforeValidator(check)


def _value(raw: Any) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not np.isfinite(float(raw)):
        raise ValueError(f"must be {FORMS}")
    return float(raw)


def _steps(raw: Mapping[str, Any], whole: bool) -> list[float]:
    """From low to high: whole numbers one by one, others by equal factors."""
    if not {"low", "high"} <= raw.keys() <= {"low", "high", "steps"} or (not whole and "steps" not in raw):
        raise ValueError(f"must be {FORMS}")
    low, high = _value(raw["low"]), _value(raw["high"])
    steps = raw.get("steps", int(high) - int(low) + 1)
    if not low <= high:
        raise ValueError(f"needs low <= high, but low is {low:g} and high is {high:g}")
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST_STEPS:
        raise ValueError(f"needs steps from 1 to {MOST_STEPS}")
    if whole:
        return [float(value) for value in np.unique(np.linspace(low, high, steps).round())]
    if low <= 0:
        raise ValueError("must be greater than 0")
    return [float(f"{value:.3g}") for value in np.geomspace(low, high, steps)]


Free = Annotated[tuple[float, ...] | None, _free()]
FreeShare = Annotated[tuple[float, ...] | None, _free(most=1.0)]
FreeWhole = Annotated[tuple[float, ...] | None, _free(whole=True)]


class PlanSettings(Section):
    """What is free to choose; what is left out is as the other sections say."""

    deadline_s: Free = Field(default=None, description="time of a round")
    rounds_per_day: Free = Field(default=None, description="how often rounds take place")
    band_share: FreeShare = Field(default=None, description="part of cell.bandwidth_hz that learning gets")
    budget_j: Free = Field(default=None, description="energy budget per device and round")
    shared_layers: FreeWhole = Field(default=None, description="layers of the model that are uploaded")
    upload_bits_per_parameter: FreeWhole = Field(default=None, description="8, 16 or 32")
    upload_bits: Free = Field(default=None, description="size of an upload, where there is no model")
    days: Positive = Field(default=365.0, description="for how long the fleet is planned")


@dataclass(frozen=True)
class Choice:
    """One way to run the fleet; None is what the settings say.

    Attributes:
        deadline_s: time of a round.
        rounds_per_day: how often rounds take place.
        band_share: part of the band that learning gets.
        budget_j: energy budget per device and round.
        shared_layers, upload_bits_per_parameter, upload_bits: what is uploaded.
    """

    deadline_s: float
    rounds_per_day: float
    band_share: float = 1.0
    budget_j: float | None = None
    shared_layers: int | None = None
    upload_bits_per_parameter: int | None = None
    upload_bits: float | None = None

    @property
    def round(self) -> Choice:
        """The same round, however often it takes place: what it brings is worked out once."""
        return Choice(**{**vars(self), "rounds_per_day": 1.0})


@dataclass(frozen=True, eq=False)
class Request:
    """A file that was read.

    Attributes:
        settings: the fleet and the cell, with a deadline that keeps nobody out and the whole band.
        choices: all combinations of what is free.
        days: for how long the fleet is planned.
        tree: the plain values that settings are made from.
    """

    settings: Settings
    choices: tuple[Choice, ...]
    days: float
    tree: Mapping[str, Any]

    def settings_of(self, choice: Choice, rounds: int | None = None) -> Settings:
        """The settings with which `pmafl run` runs a choice, with the policy that plans likewise."""
        tree = copy.deepcopy(dict(self.tree))
        tree["cell"] |= {
            "deadline_s": choice.deadline_s,
            "bandwidth_hz": choice.band_share * self.settings.cell.bandwidth_hz,
        }
        tree["run"] |= {"rounds_per_day": choice.rounds_per_day} | ({"rounds": rounds} if rounds else {})
        tree["policy"] |= {"name": "steady", "options": {}}
        if choice.budget_j is not None:
            tree["fleet"]["budget_j"] = choice.budget_j
        tree["learning"] |= learning_of(choice)
        return build(tree)


def learning_of(choice: Choice) -> dict[str, Any]:
    """The settings of learning that a choice replaces."""
    names = ("shared_layers", "upload_bits_per_parameter", "upload_bits")
    return {name: value for name in names if (value := getattr(choice, name)) is not None}


def read_request(source: str | Path, overrides: Mapping[str, Any] | None = None) -> Request:
    """The request of a preset, a TOML file or ``-``, with overrides by dotted key."""
    tree = load_tree(source, overrides)
    free = _plan_settings(tree.pop("plan", {}))
    for name, values in UNUSED.items():
        section = tree.setdefault(name, {})
        if isinstance(section, dict):
            tree[name] = {**values, **section}
    if all(isinstance(tree.get(name), dict) for name in ("cell", "fleet", "learning", "policy", "run")):
        _translate(tree["fleet"], tree["learning"])
        tree["policy"].setdefault("name", "steady")
        tree["run"]["learning"] = "none"
        if tree["learning"].get("upload_bits") or free.upload_bits:
            tree["learning"].setdefault("shared_layers", 0)
        deadlines = free.deadline_s or _own(tree["cell"], "deadline_s", "cell.deadline_s")
        days = free.rounds_per_day or _own(tree["run"], "rounds_per_day", "run.rounds_per_day")
        roomy = {**tree, "cell": {**tree["cell"], "deadline_s": ROOMY_S}}
        roomy["run"] = {**tree["run"], "rounds_per_day": 0.0}
        settings = build(roomy)
        tree["cell"]["deadline_s"] = deadlines[0]
        return Request(settings, _choices(free, deadlines, days, settings), free.days, tree)
    build(tree)  # says what is missing, or is no table
    raise InputError(f"{source}: needs the sections cell and fleet")


def _plan_settings(raw: Any) -> PlanSettings:
    if not isinstance(raw, Mapping):
        raise InputError("plan must be a table of what is free to choose")
    try:
        return PlanSettings.model_validate(dict(raw))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(["plan", *map(str, first["loc"][:1])])
        if first["type"] == "extra_forbidden":
            raise InputError(
                f"{key} is not free to choose; {', '.join(PlanSettings.model_fields)} are"
            ) from None
        rule = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        raise InputError(f"{key} = {first['input']!r:.60}: {rule}") from None


def _translate(fleet: dict[str, Any], learning: dict[str, Any]) -> None:
    """Replaces what only a plan's file may say by settings."""
    if "battery_wh" in fleet:  # a preset that is built on may have the other one
        fleet["battery_j"] = _scaled(fleet.pop("battery_wh"), JOULES_PER_WH)
    if "cycles_per_round" in fleet:
        samples, cycles = fleet.get("samples"), fleet.pop("cycles_per_round")
        if isinstance(samples, bool) or not isinstance(samples, int | float) or samples <= 0:
            raise InputError("fleet.cycles_per_round needs fleet.samples as one number for all devices")
        iterations = learning.setdefault("iterations", 1)
        if isinstance(iterations, int) and iterations > 0:
            fleet["cycles_per_sample"] = _scaled(cycles, 1 / (samples * iterations))
    if "cycles_per_sample" in fleet:
        fleet["cycles_per_operation"] = fleet.pop("cycles_per_sample")
        learning["operations_per_sample"] = 1.0
    if learning.get("upload_bits") and "operations_per_sample" not in learning:
        raise InputError(
            "learning.upload_bits stands for a model of unknown work: give fleet.cycles_per_sample or "
            "learning.operations_per_sample too"
        )


def _scaled(spread: Any, factor: float) -> Any:
    """A spread in another unit; what is no number is left for the validation to name."""
    if isinstance(spread, Mapping):
        return {name: _scaled(value, factor) for name, value in spread.items()}
    if isinstance(spread, list | tuple):
        return [_scaled(value, factor) for value in spread]
    is_number = isinstance(spread, int | float) and not isinstance(spread, bool)
    return spread * factor if is_number else spread


def _own(section: dict[str, Any], name: str, key: str) -> tuple[float, ...]:
    """The one value that the settings give for what is not free."""
    raw = section.get(name)
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < float("inf"):
        got = "is missing" if raw is None else f"= {raw!r:.40}"
        raise InputError(f"{key} {got}: give a number above 0, or let it be free as plan.{name}")
    return (float(raw),)


def _choices(
    free: PlanSettings, deadlines: tuple[float, ...], days: tuple[float, ...], settings: Settings
) -> tuple[Choice, ...]:
    fixed_upload = settings.learning.upload_bits > 0 or free.upload_bits is not None
    for name in ("shared_layers", "upload_bits_per_parameter"):
        if fixed_upload and getattr(free, name) is not None:
            raise InputError(f"plan.{name} is free, but upload_bits says what is uploaded; give one of them")
    lists: dict[str, tuple[Any, ...]] = {"deadline_s": deadlines, "rounds_per_day": days}
    for name in ("band_share", "budget_j", "shared_layers", "upload_bits_per_parameter", "upload_bits"):
        if (values := getattr(free, name)) is not None:
            whole = name in ("shared_layers", "upload_bits_per_parameter")
            lists[name] = tuple(map(int, values)) if whole else values
    if (count := int(np.prod([len(values) for values in lists.values()]))) > MOST_CHOICES:
        raise InputError(f"plan leaves {count} choices; it takes at most {MOST_CHOICES}")
    choices = [
        Choice(**dict(zip(lists, values, strict=True))) for values in itertools.product(*lists.values())
    ]
    fitting = tuple(choice for choice in choices if choice.deadline_s * choice.rounds_per_day <= DAY_S)
    if not fitting:
        raise InputError(
            f"not even {min(days):g} rounds of {min(deadlines):g} s fit a day; take fewer or shorter ones"
        )
    return fitting
