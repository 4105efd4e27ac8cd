"""A channel model may be a stranger's code: what goes wrong in it becomes one line that names it."""

from typing import Any

import numpy as np

from pmafl.arrays import can_be_saved
from pmafl.errors import InputError
from pmafl.plugins import blaming
from pmafl.wireless.channels.base import Channel, State
from pmafl.wireless.problem import Array


def checked(channel: Channel, devices: int, what: str) -> Channel:
    """The same channel, with every answer checked; `what` names the model in errors."""

    def start(rng: np.random.Generator) -> State:
        with blaming(what):
            return _state(channel.start(rng))

    def gains(state: State, round_index: int, rng: np.random.Generator) -> tuple[Array, State]:
        with blaming(f"{what} in round {round_index}"):
            gain, after = channel.gains(state, round_index, rng)
            return _powers("gain", gain, (devices,)), _state(after)

    def law(count: int) -> Array:
        with blaming(what):
            return _powers("law", channel.law(count), (count,))

    with blaming(what):
        return Channel(_powers("mean_gain", channel.mean_gain, (devices,)), gains, law, start)


def _powers(name: str, raw: Any, shape: tuple[int, ...]) -> Array:
    if not isinstance(raw, np.ndarray) or raw.dtype.kind not in "fiu" or raw.shape != shape:
        kind = f"{raw.dtype} of shape {raw.shape}" if isinstance(raw, np.ndarray) else type(raw).__name__
        raise InputError(f"{name} is {kind}; it must be an array of {shape[0]} numbers")
    wrong = ~(np.isfinite(raw) & (raw >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(f"{name} has {raw[at]:g} at {at}; it must be 0 or more, and finite")
    return raw.astype(np.float64, copy=False)


def _state(raw: Any) -> State:
    """What a checkpoint can save: arrays of numbers by name."""
    if not isinstance(raw, dict):
        raise InputError(f"the state is a {type(raw).__name__}; it must be a mapping from names to arrays")
    for name, value in raw.items():
        known = isinstance(name, str) and isinstance(value, np.ndarray)
        if not known or not can_be_saved(value.dtype):
            raise InputError(
                f"the state has a {type(value).__name__} as {name!r}; it must be an array of numbers"
            )
    return raw
