"""Rules that combine uploads: against numpy, by their symmetries, and under attack."""

import numpy as np
import pytest
import torch

from pmafl.learning.aggregation import Mean, aggregate_for, trimmed
from pmafl.learning.quantise import decode, encode, part
from tests.learning.synthetic import learning, task

ROBUST = ["median", "trimmed-mean", "clipped-mean"]
RULES = ["mean", *ROBUST]
ALGORITHMS = ["pma", "fedavg", "fedprox", "fedrep", "local"]


def combine(rule, uploads, before, samples=None, bits=32, **options):
    """The extractor after a round in which these rows were uploaded."""
    aggregate = aggregate_for(learning(aggregation=rule, **options), torch.as_tensor(before).float())
    for upload, weight in zip(uploads, samples or [600] * len(uploads), strict=True):
        aggregate.add(encode(torch.as_tensor(upload).float(), bits), weight)
    return aggregate.result()


def draw(devices=7, parameters=1000, seed=0):
    rng = np.random.default_rng(seed)
    before = rng.normal(0, 1, parameters).astype(np.float32)
    return before, before + rng.normal(0.3, 0.1, (devices, parameters)).astype(np.float32)


def test_the_aggregate_is_the_sample_weighted_mean():
    uploads = torch.randn(3, 1000)
    aggregate = Mean(torch.zeros(1000))
    for upload, samples in zip(uploads, (600, 100, 300), strict=True):
        aggregate.add(encode(upload, 32), samples)
    expected = (torch.tensor([0.6, 0.1, 0.3], dtype=torch.float64)[:, None] * uploads).sum(dim=0)
    torch.testing.assert_close(aggregate.result(), expected.float())


def test_one_device_alone_is_its_own_mean():
    upload = torch.randn(1000)
    aggregate = Mean(torch.zeros(1000))
    aggregate.add(encode(upload, 32), 597)
    assert torch.equal(aggregate.result(), upload)


def test_a_round_without_devices_keeps_the_extractor():
    extractor = torch.randn(10)
    assert torch.equal(Mean(extractor).result(), extractor)


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 5, 10, 21])
def test_the_rules_are_what_numpy_computes(devices):
    before, uploads = draw(devices, seed=devices)
    exact = uploads.astype(np.float64)
    expected = {"mean": exact.mean(axis=0), "median": np.median(exact, axis=0)}
    cut = min(int(np.ceil(round(0.2 * devices, 6))), (devices - 1) // 2)
    expected["trimmed-mean"] = np.sort(exact, axis=0)[cut : devices - cut].mean(axis=0)
    changes = exact - before
    lengths = np.linalg.norm(changes, axis=1)
    shares = np.minimum(1, 0.7 * np.median(lengths) / lengths)
    expected["clipped-mean"] = before + (shares[:, None] * changes).mean(axis=0)
    for rule, value in expected.items():
        np.testing.assert_allclose(
            combine(rule, uploads, before, clip_factor=0.7), value, rtol=1e-5, atol=1e-6
        )


def test_long_extractors_are_combined_in_chunks_to_the_same_values(monkeypatch):
    before, uploads = draw(5, 70_000)
    whole = {rule: combine(rule, uploads, before, bits=8) for rule in ROBUST}
    monkeypatch.setattr("pmafl.learning.aggregation.CHUNK", 2048)
    for rule, value in whole.items():
        assert torch.equal(combine(rule, uploads, before, bits=8), value)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_part_of_a_payload_decodes_to_that_part(bits):
    payload = encode(torch.randn(5000), bits)
    for start, stop in ((0, 1024), (1024, 3072), (4096, 5000)):
        assert torch.equal(decode(part(payload, start, stop)), decode(payload)[start:stop])


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_devices_does_not_matter(rule):
    before, uploads = draw()
    one, other = (combine(rule, rows, before) for rows in (uploads, uploads[::-1].copy()))
    torch.testing.assert_close(one, other)
    if rule in ("median", "trimmed-mean"):
        assert torch.equal(one, other)


@pytest.mark.parametrize("rule", RULES)
def test_moving_everything_moves_the_result(rule):
    before, uploads = draw()
    moved = combine(rule, uploads + np.float32(3), before + np.float32(3))
    torch.testing.assert_close(moved, combine(rule, uploads, before) + 3, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_devices_that_agree_get_what_they_agree_on(rule):
    before, uploads = draw()
    agreed = combine(rule, np.repeat(uploads[:1], 7, axis=0), before, clip_factor=1.0)
    torch.testing.assert_close(agreed, torch.from_numpy(uploads[0]))


@pytest.mark.parametrize("rule", RULES)
def test_a_round_without_devices_or_without_parameters_is_possible(rule):
    before, _ = draw()
    assert torch.equal(combine(rule, [], before), torch.from_numpy(before))
    assert combine(rule, np.zeros((3, 0)), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("rule", ROBUST)
def test_claimed_samples_weigh_nothing_in_a_robust_rule(rule):
    before, uploads = draw()
    honest, lied = (combine(rule, uploads, before, samples) for samples in ([600] * 7, [10**9] + [600] * 6))
    assert torch.equal(honest, lied)


def distance(rule, hostile, devices=20, **options):
    """How far `hostile` absurd uploads of 20 move the result, in lengths of an honest change."""
    before, uploads = draw(devices)
    spoilt = uploads.copy()
    spoilt[:hostile] = -6e4
    honest = np.linalg.norm(uploads - before, axis=1).max()
    moved = combine(rule, spoilt, before, **options) - combine(rule, uploads, before, **options)
    return float(torch.linalg.vector_norm(moved)) / honest


@pytest.mark.parametrize(
    ("rule", "withstands"), [("mean", 0), ("median", 9), ("trimmed-mean", 4), ("clipped-mean", 9)]
)
def test_a_rule_withstands_the_share_that_is_stated(rule, withstands):
    assert distance(rule, withstands) < 2
    assert distance(rule, 10 if rule == "clipped-mean" else withstands + 2) > 100


@pytest.mark.parametrize("devices", [3, 4])
@pytest.mark.parametrize("rule", ROBUST)
def test_three_devices_are_enough_to_withstand_one(rule, devices):
    assert distance(rule, 1, devices) < 2


def test_a_larger_trimmed_share_withstands_more():
    assert distance("trimmed-mean", 8, trim_share=0.2) > 100
    assert distance("trimmed-mean", 8, trim_share=0.4) < 2
    assert [trimmed(30, share) for share in (0.0, 0.1, 0.3, 0.49)] == [0, 3, 9, 14]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("rule", RULES)
def test_every_algorithm_learns_under_every_rule(algorithm, rule):
    made = task(algorithm=algorithm, aggregation=rule)
    state = made.start()
    before = made.evaluate(state)
    for number in range(6):
        state, _ = made.advance(state, range(4), number)
    after = made.evaluate(state)
    assert after.loss < before.loss / 2
    assert after.accuracy > 0.6 > before.accuracy
