"""Asking a policy for its decision, and checking the answer before anybody acts on it.

A policy may be a stranger's code: what it raises, and whatever is wrong with what it returns, becomes one
line that names the policy and the round. The limits leave room for rounding, so that a solver is never blamed
for its last digits.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl.arrays import can_be_saved
from pmafl.errors import InputError
from pmafl.plugins import blaming
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.policy import Outcome, Outlook, Policy, State
from pmafl.wireless import Array, Mask, RoundProblem

ROUNDING = 1e-6  # what a limit may be exceeded by, as a part of it
_ARRAYS = (
    "bandwidth_share",
    "compute_time_s",
    "upload_time_s",
    "frequency_hz",
    "power_w",
    "compute_energy_j",
    "upload_energy_j",
    "awake_energy_j",
)


def ask(policy: Policy, problem: RoundProblem, state: State, rng: np.random.Generator, name: str) -> Decision:
    """The policy's decision, checked; `name` is what an error says."""
    with blaming(f"policy {name!r} in round {problem.round}"):
        return checked(policy.decide(problem, state, rng), problem)


def begin(policy: Policy, outlook: Outlook, name: str) -> dict[str, NDArray[Any]]:
    """The policy's state before the first round, checked."""
    with blaming(f"policy {name!r} before the first round"):
        return _state("start", policy.start(outlook))


def tell(
    policy: Policy, state: State, problem: RoundProblem, decision: Decision, outcome: Outcome, name: str
) -> dict[str, NDArray[Any]]:
    """The policy's state after a round, checked."""
    with blaming(f"policy {name!r} in round {problem.round}"):
        return _state("observe", policy.observe(state, problem, decision, outcome))


def checked(answer: Any, problem: RoundProblem) -> Decision:
    """The decision with plain numbers and arrays of floats; `InputError` where it is not a possible one."""
    if not isinstance(answer, Decision):
        kind = type(answer).__name__
        raise InputError(
            f"returned {kind}; it must return a Decision, as allocate_given(problem, mask, name)"
        )
    scheduled = _mask("scheduled", answer.scheduled, problem.devices)
    idle = (~scheduled).astype(np.float64)
    columns: dict[str, Any] = {name: _column(name, getattr(answer, name), idle) for name in _ARRAYS}
    _limit("bandwidth_share", "all devices together", float(columns["bandwidth_share"].sum()), 1.0)
    time_s = columns["compute_time_s"] + columns["upload_time_s"]
    _limit_each("compute_time_s + upload_time_s", time_s, np.maximum(problem.work_time_s, 0.0))
    _limit_each("frequency_hz", columns["frequency_hz"], problem.max_frequency_hz)
    _limit_each("power_w", columns["power_w"], problem.max_power_w)
    dropped = answer.dropped
    if dropped is not None:
        dropped = _mask("dropped", dropped, problem.devices)
        if (both := dropped & scheduled).any():
            raise InputError(f"device {int(both.argmax())} is both scheduled and dropped")
    return replace(
        answer,
        scheduled=scheduled,
        **columns,
        objective=_number("objective", answer.objective),
        lower_bound=None if answer.lower_bound is None else _number("lower_bound", answer.lower_bound),
        gap=None if answer.gap is None else _number("gap", answer.gap),
        dropped=dropped,
    )


def _state(function: str, raw: Any) -> dict[str, NDArray[Any]]:
    """What a checkpoint can save: arrays of numbers by name."""
    if not isinstance(raw, Mapping):
        raise InputError(f"{function} returned {_kind(raw)}; it must return a mapping from names to arrays")
    state = {}
    for name, value in raw.items():
        known = isinstance(value, np.ndarray | np.generic | int | float)
        if not isinstance(name, str) or not known or not can_be_saved(np.asarray(value).dtype):
            raise InputError(
                f"{function} returned {_kind(value)} as {name!r}; it must be an array of numbers"
            )
        state[name] = np.asarray(value)
    return state


def _mask(name: str, raw: Any, devices: int) -> Mask:
    if not isinstance(raw, np.ndarray) or raw.dtype != np.bool_ or raw.shape != (devices,):
        raise InputError(f"{name} is {_kind(raw)}; it must be an array of {devices} booleans, one per device")
    return raw


def _column(name: str, raw: Any, idle: Array) -> Array:
    """The column, if it has numbers that may be; `idle` is 1 where a device is not scheduled, and else 0."""
    if not isinstance(raw, np.ndarray) or raw.dtype.kind not in "fiu" or raw.shape != idle.shape:
        raise InputError(f"{name} is {_kind(raw)}; it must be an array of {idle.size} numbers")
    value: Array = raw.astype(np.float64, copy=False)
    if not 0 <= value.min() <= value.max() < np.inf:
        device = int((~(np.isfinite(value) & (value >= 0))).argmax())
        raise InputError(f"{name} of device {device} is {value[device]:g}; it must be 0 or more, and finite")
    if value @ idle > 0:
        device = int((value * idle > 0).argmax())
        raise InputError(
            f"{name} of device {device} is {value[device]:g}; it must be 0, for it is not scheduled"
        )
    return value


def _limit(name: str, whose: str, value: float, limit: float) -> None:
    if value > limit * (1 + ROUNDING):
        raise InputError(f"{name} of {whose} is {value:.6g}; it must be at most {limit:.6g}")


def _limit_each(name: str, value: Array, limit: Array) -> None:
    over = value > limit * (1 + ROUNDING)
    if over.any():
        device = int(over.argmax())
        _limit(name, f"device {device}", float(value[device]), float(limit[device]))


def _number(name: str, raw: Any) -> float:
    number = math.nan
    if isinstance(raw, int | float | np.integer | np.floating) and not isinstance(raw, bool):
        with suppress(OverflowError):
            number = float(raw)
    if not math.isfinite(number):
        raise InputError(f"{name} is {raw!r:.40}; it must be a finite number")
    return number


def _kind(raw: Any) -> str:
    """What came instead of an array."""
    if isinstance(raw, np.ndarray):
        return f"an array of {raw.dtype} with shape {raw.shape}"
    return f"a {type(raw).__name__}"
