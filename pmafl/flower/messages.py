"""What travels between the server and a device, and how it is checked when it arrives.

Heads and samples have no form here, so they cannot be sent. Whatever a device sends is untrusted: a reader
gives back exactly what was asked for, or raises `Refused` with the reason.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

if TYPE_CHECKING:
    from pmafl.learning.quantise import Payload

PROFILE, ORDER, REPORT, SCORE, EXTRACTOR, TASK = "profile", "order", "report", "score", "extractor", "task"
MOST = 1e15  # of any quantity here; what is possible is for `limits` to say
MOST_PARAMETER = 1e4  # of a trained network in size; one above it has exploded, even if it is finite
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
        input_shape, classes: of the data.
        mean, std: by which inputs are standardised.
    """

    run: str
    round: int
    settings: str
    input_shape: list[int]
    classes: int
    mean: list[float]
    std: list[float]


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


@dataclass(frozen=True)
class Report:
    """What a device says about its round.

    Attributes:
        train_time_s: time that training took on its clock.
        compute_energy_j, upload_energy_j: energy used.
        measured: 1 if the compute energy was measured, 0 if it is the model's.
    """

    train_time_s: float
    compute_energy_j: float
    upload_energy_j: float
    measured: int


@dataclass(frozen=True)
class Score:
    """A device's test accuracy and loss."""

    accuracy: float
    loss: float


@dataclass(frozen=True)
class Upload:
    """A device's part in a round, checked. `size_bytes` is all that the message holds."""

    payload: Payload
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


def read_upload(content: RecordDict, like: Payload) -> Upload:
    """An upload with the form of `like` and values that a network can have."""
    size_bytes = sum(record.count_bytes() for record in content.values())
    report = _numbers(_only(content, REPORT, EXTRACTOR), Report)
    return Upload(read_extractor(content, like), report, size_bytes)


def payload_record(payload: Payload) -> ArrayRecord:
    """Tensors as they are, byte for byte."""
    arrays = [tensor.cpu().numpy() for tensor in payload]
    return ArrayRecord({str(i): Array(a.dtype.str, a.shape, RAW, a.tobytes()) for i, a in enumerate(arrays)})


def read_extractor(content: RecordDict, like: Payload) -> Payload:
    """The payload in a message, if it has the form of `like` and values that a network can have."""
    import torch

    record = content.array_records.get(EXTRACTOR) or ArrayRecord()
    if set(record) != {str(i) for i in range(len(like))}:
        raise Refused(f"its extractor must be {len(like)} arrays")
    tensors = []
    for index, expected in enumerate(like):
        array, dtype = record[str(index)], expected.numpy().dtype
        form, needed = (array.stype, array.dtype, array.shape), (RAW, dtype.str, tuple(expected.shape))
        if form != needed or len(array.data) != expected.numel() * dtype.itemsize:
            raise Refused(f"its extractor is {form} in {len(array.data)} bytes; must be {needed}")
        tensors.append(torch.from_numpy(np.frombuffer(array.data, dtype).copy()))
    payload = tuple(tensors)
    if not is_sound(payload):
        raise Refused(f"its extractor has values that are not finite, or beyond {MOST_PARAMETER:g}")
    return payload


def is_sound(payload: Payload) -> bool:
    """Whether all parameters are numbers that a network can have: neither NaN nor exploded."""
    from pmafl.learning.quantise import decode

    return bool((decode(payload).abs() <= MOST_PARAMETER).all())


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
        if not 0 <= value <= MOST:
            raise Refused(f"its {name} is {value:g}; must be from 0 to {MOST:g}")
    return kind(**values)
