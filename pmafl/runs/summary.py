"""``summary.json``: the numbers of a whole run that people compare, and whose they are."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from pmafl import budgets, files
from pmafl.rounds import State
from pmafl.runs.identity import Identity, digest_in, settings_text
from pmafl.runs.records import RECORDS, last_check
from pmafl.settings import DAY_S
from pmafl.wireless import Array
from pmafl.world import World

SUMMARY = "summary.json"


def summarise(
    world: World, state: State, budget_j: Array, records: list[dict[str, Any]], wall_time_s: float
) -> dict[str, Any]:
    """The numbers of a whole run that people compare, with the budgets that its devices had at its end."""
    rounds, settings = len(records), world.settings
    evaluated = [r for r in records if r["accuracy"] is not None or r.get("error") is not None]
    last = evaluated[-1] if evaluated else {}
    energy_j = state.queues.spent_j / rounds
    wireless = settings.run.wireless == "full"
    return {
        "policy": settings.policy.name,
        "algorithm": settings.learning.algorithm if settings.run.learning == "full" else None,
        "seed": settings.run.seed,
        "rounds": rounds,
        "devices": world.fleet.devices,
        **({"clients": list(world.clients)} if world.clients else {}),
        "final_accuracy": last.get("accuracy"),
        "best_accuracy": max((r["accuracy"] for r in evaluated if r["accuracy"] is not None), default=None),
        "accuracy_std_over_devices": last.get("accuracy_std"),
        "worst_tenth_accuracy": last.get("worst_tenth_accuracy"),
        "global_accuracy": last.get("global_accuracy"),
        "final_loss": last.get("loss"),
        **(_errors(evaluated) if last.get("error") is not None else {}),
        "scheduled_samples_per_round": sum(r["scheduled_samples"] for r in records) / rounds,
        "scheduled_devices_per_round": sum(len(r["scheduled"]) for r in records) / rounds,
        "energy_per_device_round_j": float(energy_j.mean()) if wireless else None,
        "max_energy_per_device_round_j": float(energy_j.max()) if wireless else None,
        "budget_j": float(budget_j.mean()),
        **budgets.measure(state.queues.spent_j, budget_j, records, wireless),
        **(_batteries(world, energy_j) if wireless else {}),
        "mean_gap": _mean([r["gap"] for r in records if r["gap"] is not None]),
        "wall_time_s": round(wall_time_s, 3),
        "versions": versions(),
    }


def _batteries(world: World, energy_j: Array) -> dict[str, float | None]:
    """What devices use asleep, and days until the first, median and last battery is empty; where known."""
    fleet, settings = world.fleet, world.settings
    found: dict[str, float | None] = {}
    per_day = settings.run.rounds_per_day or DAY_S / settings.cell.deadline_s
    sleep_j = fleet.sleep_power_w * DAY_S / per_day
    if sleep_j.any():
        found["sleep_energy_per_device_round_j"] = float(sleep_j.mean())
    known = (fleet.battery_j > 0) & (energy_j + sleep_j > 0)
    if known.any():
        days = fleet.battery_j[known] / ((energy_j + sleep_j)[known] * per_day)
        found |= {
            "first_battery_days": float(days.min()),
            "median_battery_days": float(np.median(days)),
            "last_battery_days": float(days.max()),
        }
    return found


def _errors(evaluated: list[dict[str, Any]]) -> dict[str, Any]:
    """What takes the place of accuracies where values are predicted."""
    last = evaluated[-1]
    return {
        "final_error": last["error"],
        "best_error": min(r["error"] for r in evaluated if r.get("error") is not None),
        "error_std_over_devices": last["error_std"],
        "worst_tenth_error": last["worst_tenth_error"],
        "global_error": last["global_error"],
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def versions() -> dict[str, str]:
    """What a run depended on."""
    found = {package: _version(package) for package in ("pmafl", "numpy", "scipy", "torch")}
    return {"python": platform.python_version()} | {name: number for name, number in found.items() if number}


@cache  # each look reads a file of some hundred lines
def _version(package: str) -> str:
    """Of an installed package; empty where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def write_summary(directory: Path, summary: dict[str, Any], identity: Identity) -> dict[str, Any]:
    """Write the summary of a finished run together with whose it is; return both."""
    whose = {"run": identity.run, "settings": identity.digest, "records": last_check(directory / RECORDS)}
    whole = {**summary, "identity": {**whose, "digest": _digest(summary, whose)}}
    files.write_atomically(directory / SUMMARY, (json.dumps(whole, indent=2) + "\n").encode())
    return whole


def read_summary(directory: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The summary of a finished run, or None.

    One that is damaged, or does not belong to the settings and records beside it, does not count. Version 0.1
    did not write whose a summary is: there its number of rounds has to do.
    """
    directory = Path(directory)
    try:
        summary: dict[str, Any] = json.loads(files.read_bytes(directory / SUMMARY))
        rounds = tomllib.loads(settings_text(directory))["run"]["rounds"]
        if summary["rounds"] != rounds:
            return None
        if (identity := summary.get("identity")) is None:
            return None if last_check(directory / RECORDS) else summary
        numbers = {name: value for name, value in summary.items() if name != "identity"}
        whose = {name: value for name, value in identity.items() if name != "digest"}
        fits = (
            identity["digest"] == _digest(numbers, whose)
            and identity["settings"] == digest_in(directory)
            and identity["records"] == last_check(directory / RECORDS)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return summary if fits else None


def _digest(numbers: dict[str, Any], whose: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([numbers, whose], sort_keys=True).encode()).hexdigest()
