"""What a device may say, at its edges, and thousands of replies that were tampered with."""

import math
import struct
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from pmafl.devices import SimulatedDevices
from pmafl.flower.limits import BELIEVED_FACTOR, ENERGY_FACTOR, limits_of
from pmafl.flower.messages import (
    MOST_PARAMETER,
    NO_LOSS,
    Order,
    Profile,
    Refused,
    Report,
    Score,
    numbers_record,
    read_profile,
    read_score,
    read_upload,
    weights_record,
)
from pmafl.learning.quantise import decode, encode
from pmafl.rounds import round_problem, start
from pmafl.settings import load
from pmafl.world import wireless_world

FUZZED = 6000
ORDER = Order(2.0, 5e8, 0.1, 0.2, 1.0, 1.0, 0.5, 0.2)
PROFILE = Profile(1, 600, 137586.5, 1e9, 1.0, 0.1, 1e-9)
REPORT = Report(0.3, 0.5, 0.2, 0, 1.5)
SCORE = Score(0.9, 0.3)


@pytest.fixture(scope="module")
def world():
    return wireless_world(load("mnist", {"fleet.devices": 5, "fleet.samples": 600}))


@pytest.fixture(scope="module")
def limits(world):
    return limits_of(world, timeout_s=10.0)


def test_what_an_honest_device_says_is_accepted(limits):
    limits.check_profile(PROFILE)
    limits.check_profile(replace(PROFILE, channel_gain=0.0))
    limits.check_report(REPORT, PROFILE, ORDER)
    limits.check_report(replace(REPORT, compute_energy_j=9.0, measured=1), PROFILE, ORDER)
    limits.check_score(SCORE)


@pytest.mark.parametrize(
    "changes",
    [
        {"device": 5},
        {"device": -1},
        {"samples": 0},
        {"samples": 10**9},
        {"budget_j": 0.0},
        {"budget_j": 1e-40},
        {"budget_j": 1e6},
        {"max_frequency_hz": 1.0},
        {"max_frequency_hz": 1e14},
        {"max_power_w": 1e-9},
        {"cycles_per_sample": 1e-3},
        {"channel_gain": 1e-50},
        {"channel_gain": 2.0},
    ],
    ids=str,
)
def test_an_impossible_profile_is_refused(limits, changes):
    with pytest.raises(Refused):
        limits.check_profile(replace(PROFILE, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"train_time_s": 12.0},
        {"compute_energy_j": 1e15, "upload_energy_j": 1e15, "measured": 1},
        {"compute_energy_j": 50.0, "measured": 1},
        {"upload_energy_j": 21.0, "measured": 1},
        {"compute_energy_j": 0.4},
        {"upload_energy_j": 0.0},
        {"measured": 2},
    ],
    ids=str,
)
def test_an_impossible_report_is_refused(limits, changes):
    with pytest.raises(Refused):
        limits.check_report(replace(REPORT, **changes), PROFILE, ORDER)


@pytest.mark.parametrize("accuracy", [-0.1, 1.0001, 1e15])
def test_an_accuracy_is_a_share(limits, accuracy):
    with pytest.raises(Refused, match="accuracy"):
        limits.check_score(replace(SCORE, accuracy=accuracy))


def test_devices_may_differ_from_the_settings_by_a_stated_factor(limits, world):
    for name, value in (("budget_j", 0.1), ("max_frequency_hz", 1e9), ("max_power_w", 1.0)):
        for factor in (0.999, -0.999):
            changed = value * BELIEVED_FACTOR**factor
            limits.check_profile(replace(PROFILE, **{name: changed}))
    round_problem(world, start(world), SimulatedDevices(world).report(0))


NUMBERS = [0, 1, -1, 2, 10**9, 2**62, 0.0, -0.0, 0.5, 1.0, 1.5, 1e-300, 5e-324, 1e-45, 1e-40, 1e-12, 1e3, 1e9]
NUMBERS += [1e15, 1.1e15, 1e40, 1e308, -1e-9, -1e308, math.nan, math.inf, -math.inf]


def mutated_number(rng, value):
    kind = rng.integers(5)
    if kind == 0:
        return NUMBERS[rng.integers(len(NUMBERS))]
    if kind == 1:
        return float(value) * 10.0 ** rng.uniform(-12, 12)
    if kind == 2:  # flip a bit of the double
        bits = struct.unpack("<Q", struct.pack("<d", float(value)))[0] ^ (1 << int(rng.integers(64)))
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if kind == 3:
        return [float(value), 1.0][: rng.integers(3)]
    return int(value) if isinstance(value, float) and abs(value) < 2**62 else float(value)


def mutated_array(rng, array):
    data = np.frombuffer(array.data, np.uint8).copy()
    kind = rng.integers(6)
    if kind == 0:
        for at in rng.integers(len(data), size=rng.integers(1, 20)) if len(data) else ():
            data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data = data[: rng.integers(len(data) + 1)]
    elif kind == 2:
        data = rng.integers(0, 256, len(data), dtype=np.uint8)
    elif kind == 3:
        values = data[: len(data) // 2 * 2].view(np.float16).copy()
        with np.errstate(over="ignore", invalid="ignore"):
            values *= np.float16(10.0 ** rng.uniform(-5, 5))
        data = values.view(np.uint8)
    dtype = ["<f4", "<f8", "O", "", "|S1"][rng.integers(5)] if kind == 4 else array.dtype
    shape = [(), (0,), (-1,), (64, 1), (10**12,)][rng.integers(5)] if kind == 5 else array.shape
    stype = ["raw", "raw", "raw", "numpy.ndarray", "pickle", ""][rng.integers(6)]
    return Array(dtype, shape, stype, data.tobytes())


def mutated(rng, content):
    """The same reply with one to three things changed: numbers, bytes, names, records."""
    for _ in range(rng.integers(1, 4)):
        name = list(content)[rng.integers(len(content))] if len(content) else "profile"
        record, kind = content.get(name), rng.integers(12)
        if kind == 0 and name in content:
            del content[name]
        elif kind == 1:
            content["more"] = MetricRecord({"x": 1.0})
        elif kind == 2:
            content[name] = ConfigRecord({"samples": "600", "x": b"\x80\x04."})
        elif isinstance(record, MetricRecord) and len(record):
            key = list(record)[rng.integers(len(record))]
            if kind == 3:
                del record[key]
            elif kind == 4:
                record["\x00\n; drop"] = 1
            else:
                first = record[key][0] if isinstance(record[key], list) and record[key] else record[key]
                record[key] = mutated_number(rng, first if isinstance(first, int | float) else 1.0)
        elif isinstance(record, ArrayRecord) and len(record):
            key = list(record)[rng.integers(len(record))]
            record[key] = mutated_array(rng, record[key])
    return content


def test_every_tampered_reply_is_refused_or_possible(limits, world):
    rng, accepted = np.random.default_rng(16), {"profile": 0, "upload": 0, "score": 0}
    like = {"extractor": encode(torch.randn(64), 16)}
    problem = round_problem(world, start(world), SimulatedDevices(world).report(0))
    for _ in range(FUZZED):
        kind = ("profile", "upload", "score")[rng.integers(3)]
        try:
            if kind == "profile":
                said = read_profile(mutated(rng, RecordDict({"profile": numbers_record(PROFILE)})))
                limits.check_profile(said)
                assert 0 <= said.device < 5
                names = ("samples", "cycles_per_sample", "max_frequency_hz", "max_power_w", "channel_gain")
                replace(problem, **{name: np.full(5, float(getattr(said, name))) for name in names})
                assert 1e-4 <= said.budget_j <= 100
                assert said.channel_gain <= 1
            elif kind == "upload":
                content = RecordDict({"report": numbers_record(REPORT), "weights": weights_record(like)})
                upload = read_upload(mutated(rng, content), like)
                limits.check_report(upload.report, PROFILE, ORDER)
                report = asdict(upload.report)
                sent = decode(upload.weights["extractor"])
                assert sent.shape == (64,)
                assert float(sent.abs().max()) <= MOST_PARAMETER
                assert report["train_loss"] == NO_LOSS or 0 <= report["train_loss"] <= 1e15
                assert 0 <= report["train_time_s"] <= 11
                assert 0 <= report["compute_energy_j"] <= ENERGY_FACTOR * 2.1
                assert 0 <= report["upload_energy_j"] <= ENERGY_FACTOR * 2.0
                assert report["measured"] in (0, 1)
            else:
                score = read_score(mutated(rng, RecordDict({"score": numbers_record(SCORE)})))
                limits.check_score(score)
                assert 0 <= score.accuracy <= 1
                assert 0 <= score.loss <= 1e15
            accepted[kind] += 1
        except Refused as refusal:
            assert "\n" not in str(refusal)
    assert all(20 < count < FUZZED / 6 for count in accepted.values())  # some are harmless, most are not
