"""Round problems and decisions as JSON, for scripts and other systems."""

import json
from collections.abc import Collection
from dataclasses import fields
from typing import Any

import numpy as np

from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision
from pmafl.wireless import CELL_FIELDS, COMMON_FIELDS, Mask, RoundProblem

_DEVICE_FIELDS = [
    entry.name for entry in fields(RoundProblem) if entry.name not in (*CELL_FIELDS, "available")
]
_CELL_DEFAULTS = {"round": 0}
# What a device may leave out; one value for all may also stand beside the cell's.
_DEFAULTS = {
    "energy_cap_j": np.inf,
    "budget_j": np.nan,
    "rounds_since": np.inf,
    "last_loss": np.nan,
    "circuit_power_w": 0.0,
    "receive_energy_j": 0.0,
    "download_time_s": 0.0,
}


def read_problem(text: str | bytes) -> tuple[RoundProblem, Mask | None]:
    """The problem, and the set that its ``"scheduled"`` list fixes, if it has one."""
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the problem is not JSON: {str(error).splitlines()[0]}") from None
    except ValueError:  # Python's limit on the digits of whole numbers
        raise InputError(
            "the problem has a whole number of thousands of digits; 1e15 is the largest"
        ) from None
    needed = [name for name in CELL_FIELDS if name not in _CELL_DEFAULTS]
    _check_keys(raw, "the problem", [*needed, "devices"], [*_CELL_DEFAULTS, *COMMON_FIELDS, "scheduled"])
    devices = raw["devices"]
    if not isinstance(devices, list) or not devices:
        raise InputError("devices must be a list of at least one device")
    common = _DEFAULTS | {name: raw[name] for name in COMMON_FIELDS if name in raw}
    required = [name for name in _DEVICE_FIELDS if name not in common]
    known = set(required)
    for index, device in enumerate(devices):
        if type(device) is not dict or device.keys() != known:  # the quick way for a million good ones
            _check_keys(device, f"devices[{index}]", required, COMMON_FIELDS)
    cell: dict[str, Any] = {n: _number(raw.get(n, _CELL_DEFAULTS.get(n)), n) for n in CELL_FIELDS}
    columns = {name: _column(devices, name, common.get(name)) for name in _DEVICE_FIELDS}
    problem = RoundProblem(**cell, **columns)
    return problem, _fixed_set(raw["scheduled"], problem.devices) if "scheduled" in raw else None


def write_decision(decision: Decision) -> str:
    """The decision as one JSON object; lists have one entry per device, 0 where it is not scheduled.

    `scheduled` lists device numbers, and so does `dropped`, which is there only if somebody was dropped.
    `awake_energy_j` is there only if receiving or circuits cost anything.
    """
    answer: dict[str, Any] = {}
    for entry in fields(decision):
        value = getattr(decision, entry.name)
        answer[entry.name] = value.tolist() if isinstance(value, np.ndarray) else value
    answer["scheduled"] = decision.scheduled_devices
    del answer["dropped"]
    if not decision.awake_energy_j.any():
        del answer["awake_energy_j"]
    if decision.dropped_devices:
        answer["dropped"] = decision.dropped_devices
    return json.dumps(answer, allow_nan=False)


def _check_keys(raw: Any, where: str, required: Collection[str], optional: Collection[str]) -> None:
    if not isinstance(raw, dict):
        raise InputError(f"{where} must be a JSON object with {', '.join(required)}")
    for key in required:
        if key not in raw:
            raise InputError(f"{where} has no {key}")
    for key in raw:
        if key not in required and key not in optional:
            raise InputError(f"{where} has {key!r}; its keys are {', '.join([*required, *optional])}")


def _column(devices: list[dict[str, Any]], name: str, default: Any) -> Any:
    values = [device.get(name, default) for device in devices]
    if set(map(type, values)) <= {float}:
        return np.array(values)
    return np.array([_number(value, f"devices[{i}].{name}") for i, value in enumerate(values)])


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} is {json.dumps(value):.40}; it must be a number")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{where} is too large a number") from None


def _fixed_set(raw: Any, devices: int) -> Mask:
    numbers = range(devices)
    whole = isinstance(raw, list) and all(type(entry) is int and entry in numbers for entry in raw)
    if not whole or len(set(raw)) < len(raw):
        raise InputError(f"scheduled must be a list of different device numbers from 0 to {devices - 1}")
    mask = np.zeros(devices, bool)
    mask[raw] = True
    return mask
