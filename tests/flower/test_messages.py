import math

import numpy as np
import pytest
import torch
from flwr.app import MetricRecord, RecordDict

from pmafl.flower.messages import (
    Profile,
    Refused,
    numbers_record,
    read_profile,
    read_score,
    read_weights,
    weights_record,
)
from pmafl.learning.quantise import encode
from pmafl.learning.workload import rounded_bits

GOOD = Profile(1, 600, 1e5, 1e9, 1.0, 0.1, 1e-8)


def profile(**changes):
    return RecordDict({"profile": MetricRecord(vars(GOOD) | changes)})


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_payload_is_sent_in_exactly_the_bits_that_the_radio_is_charged_for(bits):
    payload = encode(torch.randn(5000), bits)
    record = weights_record({"model": payload})
    assert 8 * sum(len(array.data) for array in record.values()) == rounded_bits(5000, bits)
    arrived = read_weights(RecordDict({"weights": record}), {"model": payload})
    for sent, read in zip(payload, arrived["model"], strict=True):
        assert torch.equal(sent, read)


def test_a_profile_arrives_as_it_was_sent():
    assert read_profile(RecordDict({"profile": numbers_record(GOOD)})) == GOOD


@pytest.mark.parametrize(
    "changes",
    [
        {"device": 0.5},
        {"samples": 1.5},
        {"budget_j": 1e20},
        {"max_frequency_hz": math.inf},
        {"channel_gain": math.nan},
        {"channel_gain": -1e-9},
        {"channel_gain": 1e40},
        {"max_power_w": [1.0, 2.0]},
        {"more": 1.0},
    ],
    ids=str,
)
def test_a_profile_that_is_not_made_of_numbers_is_refused(changes):
    with pytest.raises(Refused):
        read_profile(profile(**changes))


def test_a_profile_that_lacks_something_is_refused():
    content = profile()
    del content["profile"]["budget_j"]
    with pytest.raises(Refused, match="budget_j"):
        read_profile(content)
    with pytest.raises(Refused, match=r"expected \['profile'\]"):
        read_profile(RecordDict())


def test_a_score_must_be_numbers():
    with pytest.raises(Refused, match="loss"):
        read_score(RecordDict({"score": MetricRecord({"accuracy": 0.5, "loss": math.nan})}))


def test_one_bad_value_among_many_is_found():
    like = {"model": encode(torch.zeros(100_000), 16)}
    for value in (np.nan, np.inf, -np.inf, -2e4):
        values = torch.zeros(100_000)
        values[77_777] = value
        with pytest.raises(Refused, match="not finite"):
            read_weights(RecordDict({"weights": weights_record({"model": encode(values, 16)})}), like)


def test_scales_that_overflow_are_found():
    codes, scales = encode(torch.ones(2000), 8)
    spoilt = weights_record({"model": (codes, torch.full_like(scales, 3e38))})
    with pytest.raises(Refused, match="not finite"):
        read_weights(RecordDict({"weights": spoilt}), {"model": (codes, scales)})
