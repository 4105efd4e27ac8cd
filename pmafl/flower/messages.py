"""What travels between the server and a device, and how it is checked when it arrives.

Heads and samples have no form here, so they cannot be sent. Whatever a device sends is untrusted: a reader
gives back exactly what was asked for, or raises `Refused` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

if TYPE_CHECKING:
    from torch import Tensor

    from pmafl.learning.method import Upload as Weights

    Reading = Callable[[Weights], Mapping[str, Tensor]]

PROFILE, ORDER, REPORT, SCORE, WEIGHTS, TASK = "profile", "order", "report", "score", "weights", "task"
MOST = 1e15  # of any quantity here; what is possible is for `limits` to say
MOST_PARAMETER = 1e4  # of a trained network in size; one above it has exploded, even if it is finite
NO_LOSS = -1.0
RAW = "raw"  # the bytes of an array and nothing else: no header, so an upload is Q/8 bytes


class Refused(Exception):
    """A message that is not what was asked for."""


@dataclass(frozen=True)
class Task:
    """What a device needs to know of a run: its name, settings and round, and what data must look like.

    Attributes:
        run: name of the run; heads belong to one.
        round: counted from 0.
        settings: the complete settings as TOML.
        input_shape, classes: of the data; `classes` are the values to predict where `target_std` has some.
        mean, std: by which inputs are standardised.
    """

    run: str
    round: int
    settings: str
    input_shape: list[int]
    classes: int
    mean: list[float]
    std: list[float]
    target_mean: list[float] = field(default_factory=list)
    target_std: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Profile:
    """What a device holds, can do and may spend, and its channel in this round."""

    device: int
    samples: int
    cycles_per_sample: float
    max_frequency_hz: float
    max_power_w: float
    budget_j: float
    channel_gain: float
    circuit_power_w: float = 0.0
    receive_power_w: float = 0.0


@dataclass(frozen=True)
class Order:
    """What a scheduled device is told: its part of the round's decision.

    The energies are what the model expects; a device that measures reports its own.
    """

    deadline_s: float
    frequency_hz: float
    bandwidth_share: float
    power_w: float
    compute_time_s: float
    upload_time_s: float
    compute_energy_j: float
    upload_energy_j: float
    awake_energy_j: float = 0.0


@dataclass(frozen=True)
class Report:
    """What a device says about its round.

    Attributes:
        train_time_s: time that training took on its clock.
        compute_energy_j, upload_energy_j: energy used.
        measured: 1 if the compute energy was measured, 0 if it is the model's.
        train_loss: in the first pass over its samples; `NO_LOSS` where the algorithm knows none.
    """

    train_time_s: float
    compute_energy_j: float
    upload_energy_j: float
    measured: int
    train_loss: float


@dataclass(frozen=True)
class Score:
    """A device's test accuracy (the mean absolute error where values are predicted) and loss."""

    accuracy: float
    loss: float


@dataclass(frozen=True)
class Upload:
    """A device's part in a round, checked. `size_bytes` is all that the message holds."""

    weights: Weights
    report: Report
    size_bytes: int


Numbers = TypeVar("Numbers", Profile, Order, Report, Score)


def numbers_record(values: Profile | Report | Score) -> MetricRecord:
    return MetricRecord(asdict(values))


def order_record(order: Order) -> ConfigRecord:
    return ConfigRecord(asdict(order))


def task_record(task: Task) -> ConfigRecord:
    return ConfigRecord(asdict(task))


def read_task(content: RecordDict) -> Task:
    values: dict[str, Any] = dict(content.config_records[TASK])
    return Task(**values)


def read_order(content: RecordDict) -> Order:
    values: dict[str, Any] = dict(content.config_records[ORDER])
    return Order(**values)


def read_profile(content: RecordDict) -> Profile:
    return _numbers(_only(content, PROFILE), Profile)


def read_score(content: RecordDict) -> Score:
    return _numbers(_only(content, SCORE), Score)


def read_upload(content: RecordDict, like: Weights, reading: Reading | None = None) -> Upload:
    """An upload with the form of `like` and values that a network can have.

    `reading` gives the numbers in what was sent; left out, these are only rounded.
    """
    size_bytes = sum(record.count_bytes() for record in content.values())
    report = _numbers(_only(content, REPORT, WEIGHTS), Report)
    return Upload(read_weights(content, like, reading), report, size_bytes)


def weights_record(weights: Weights) -> ArrayRecord:
    """Tensors as they are, byte for byte, under their names."""
    arrays = {
        f"{name}/{i}": part.cpu().numpy() for name, parts in weights.items() for i, part in enumerate(parts)
    }
    return ArrayRecord({key: Array(a.dtype.str, a.shape, RAW, a.tobytes()) for key, a in arrays.items()})


def tensors_record(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    """The server's tensors, unrounded."""
    return weights_record({name: (values,) for name, values in tensors.items()})


def read_weights(content: RecordDict, like: Weights, reading: Reading | None = None) -> Weights:
    """What a message holds, if it has the form of `like` and values that a network can have."""
    import torch

    from pmafl.learning.uploads import BadMessage

    record = content.array_records.get(WEIGHTS) or ArrayRecord()
    expected = _parts(like)
    if set(record) != set(expected):
        raise Refused(f"its weights are {sorted(record)!s:.80}; must be {sorted(expected)!s:.80}")
    tensors = {}
    for key, part in expected.items():
        array, dtype = record[key], part.cpu().numpy().dtype
        form, needed = (array.stype, array.dtype, array.shape), (RAW, dtype.str, tuple(part.shape))
        if form != needed or len(array.data) != part.numel() * dtype.itemsize:
            raise Refused(f"its {key} is {form} in {len(array.data)} bytes; must be {needed}")
        tensors[key] = torch.from_numpy(np.frombuffer(array.data, dtype).copy())
    weights = {name: tuple(tensors[f"{name}/{i}"] for i in range(len(parts))) for name, parts in like.items()}
    try:
        read: Weights = weights
        if reading:
            read = {name: (values,) for name, values in reading(weights).items()}
    except BadMessage as error:
        raise Refused(f"its upload has {error}") from None
    if not is_sound(read):
        raise Refused(f"its weights have values that are not finite, or beyond {MOST_PARAMETER:g}")
    return weights


def read_tensors(content: RecordDict, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The server's tensors in a message, if they have the form of `like`."""
    weights = read_weights(content, {name: (values,) for name, values in like.items()})
    return {name: values.to(like[name].device) for name, (values,) in weights.items()}


def is_sound(weights: Weights) -> bool:
    """Whether all parameters are numbers that a network can have: neither NaN nor exploded."""
    from pmafl.learning.quantise import decode

    return all(bool((decode(parts).abs() <= MOST_PARAMETER).all()) for parts in weights.values())


def _parts(weights: Weights) -> dict[str, Tensor]:
    return {f"{name}/{i}": part for name, parts in weights.items() for i, part in enumerate(parts)}


def reply_to(message: Message, **records: Any) -> Message:
    return Message(RecordDict(records), reply_to=message)


def _only(content: RecordDict, numbers: str, *others: str) -> MetricRecord:
    """The record `numbers` of a message that holds it, `others` and nothing else."""
    if set(content) != {numbers, *others} or numbers not in content.metric_records:
        raise Refused(f"it sent {sorted(content)}; expected {sorted([numbers, *others])}")
    return content.metric_records[numbers]


def _numbers(record: MetricRecord, kind: type[Numbers]) -> Numbers:
    names = {field.name: field.type for field in fields(kind)}
    if set(record) != set(names):
        raise Refused(f"its {kind.__name__.lower()} has {sorted(record)}; must have {sorted(names)}")
    values: dict[str, Any] = dict(record)
    for name, value in values.items():
        whole = names[name] == "int"
        if not isinstance(value, int if whole else int | float) or not math.isfinite(value):
            raise Refused(f"its {name} is {value!r:.40}; must be a number")
        if not 0 <= value <= MOST and (name, value) != ("train_loss", NO_LOSS):
            raise Refused(f"its {name} is {value:g}; must be from 0 to {MOST:g}")
    return kind(**values)
