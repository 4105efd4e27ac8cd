"""Uploads: what they send, what they lose, and what is charged for them."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import pmafl
from pmafl.errors import InputError
from pmafl.learning.method import RESIDUAL, LearningState
from pmafl.learning.uploads import UPLOADS, BadMessage, Uploads
from pmafl.learning.uploads.base import pack, unpack
from pmafl.learning.workload import workload
from tests.learning.synthetic import learning, task

WAYS = [
    ("rounding", {}), ("qsgd", {}), ("qsgd", {"bits": 2, "bucket": 7, "norm": "2"}), ("qsgd", {"bits": 11}),
    ("top-k", {}), ("top-k", {"share": 0.3, "value_bits": 16}), ("top-k", {"share": 1.0}),
    ("random-k", {}), ("random-k", {"feedback": False, "share": 0.5}), ("sign", {}),
    ("sign", {"feedback": False}),
]  # fmt: skip
COMPRESSED = [way for way in WAYS if way[0] != "rounding"]
FEEDBACK = [
    ("top-k", {"share": 0.1}), ("top-k", {"share": 0.1, "value_bits": 16}), ("random-k", {"share": 0.1}),
    ("sign", {}), ("qsgd", {"bits": 2, "feedback": True}),
]  # fmt: skip
SMALL = {"model": "tests.learning.user_models:deep", "shared_layers": 2}
SIZES = (1, 2, 7, 8, 1000, 1025)


def upload(name, options):
    return Uploads(learning(upload=name, upload_options=options)).of(0)


def rng(seed=0):
    return np.random.default_rng(seed)


def vector(size, seed=0):
    return torch.from_numpy(rng(seed).standard_normal(size).astype("float32"))


def sent(way, values, seed=0):
    return way.decode(way.encode(values, None, rng(seed))[0], len(values))


@pytest.mark.parametrize(("name", "options"), WAYS)
def test_what_is_charged_is_what_is_sent(name, options):
    way = upload(name, options)
    for size in SIZES:
        message, residual = way.encode(vector(size), None, rng())
        assert 8 * sum(part.numel() * part.element_size() for part in message) == way.bits(size)
        assert (residual is not None) == way.feedback
        assert way.decode(message, size).shape == (size,)


@pytest.mark.parametrize(("name", "options"), COMPRESSED)
def test_nothing_stays_nothing(name, options):
    assert not sent(upload(name, options), torch.zeros(100)).any()


def test_codes_come_back_from_their_bytes():
    for bits in (1, 3, 8, 11, 16):
        codes = torch.from_numpy(rng().integers(0, 2**bits, 77))
        assert torch.equal(unpack(pack(codes, bits), 77, bits), codes)


@pytest.mark.parametrize("name", ["top-k", "random-k"])
def test_all_of_the_values_is_no_compression(name):
    assert torch.equal(sent(upload(name, {"share": 1.0}), vector(1000)), vector(1000))
    assert upload("top-k", {"share": 1.0}).bits(1000) == 32_000


def test_top_k_sends_the_largest():
    values = torch.tensor([0.1, -5.0, 0.2, 3.0, -0.3, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert sent(upload("top-k", {"share": 0.2}), values).tolist() == [0, -5, 0, 3, 0, 0, 0, 0, 0, 0]
    assert upload("top-k", {"share": 0.2}).bits(10) == 2 * 32 + 8  # two places of four bits


def test_sign_sends_signs_of_mean_size():
    assert sent(upload("sign", {}), torch.tensor([1.0, -2.0, 0.0, 5.0])).tolist() == [2.0, -2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("qsgd", {"bits": 2}),
        ("qsgd", {"bits": 3, "norm": "2"}),
        ("random-k", {"share": 0.25, "feedback": False}),
    ],
)
def test_what_is_unbiased_is_right_on_average(name, options):
    values, way, times = vector(50), upload(name, options), 1000
    draws = torch.stack([sent(way, values, seed) for seed in range(times)])
    off = (draws.mean(dim=0) - values).abs() / (draws.std(dim=0) / times**0.5 + 1e-6)
    assert float(off.max()) < 5


@pytest.mark.parametrize(("norm", "levels"), [("max", 7), ("2", 7)])
def test_qsgd_rounds_to_one_of_the_two_levels_around(norm, levels):
    values = vector(64)
    size = float(values.abs().max() if norm == "max" else torch.linalg.vector_norm(values))
    steps = sent(upload("qsgd", {"bits": 4, "norm": norm}), values).double() / size * levels
    assert torch.allclose(steps, steps.round(), atol=1e-5)
    assert float((steps - values.double() / size * levels).abs().max()) < 1 + 1e-5


@pytest.mark.parametrize(("name", "options"), FEEDBACK)
def test_with_feedback_what_was_sent_and_what_is_held_sum_to_all_changes(name, options):
    way, residual, total, changes = upload(name, options), None, torch.zeros(500), torch.zeros(500)
    for turn in range(12):
        change = vector(500, turn)
        message, residual = way.encode(change, residual, rng(turn))
        total += way.decode(message, 500)
        changes += change
    assert torch.allclose(total + residual, changes, atol=1e-4)
    assert not torch.allclose(total, changes, atol=1e-1)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("top-k", lambda parts: (torch.full_like(parts[0], 255), parts[1])),
        ("top-k", lambda parts: (torch.zeros_like(parts[0]), parts[1])),
        ("top-k", lambda parts: (parts[0][:-1], parts[1])),
        ("qsgd", lambda parts: (torch.full_like(parts[0], 255), parts[1])),
        ("sign", lambda parts: (parts[0][:-1], parts[1])),
    ],
)
def test_a_message_that_nobody_sent_is_refused(name, spoil):
    way = upload(name, {})
    message, _ = way.encode(vector(100), None, rng())
    with pytest.raises(BadMessage):
        way.decode(spoil(message), 100)


@pytest.mark.parametrize("algorithm", ["pma", "fedavg"])
def test_top_k_of_everything_learns_like_no_compression(algorithm):
    plain = task(**SMALL, algorithm=algorithm, upload_bits_per_parameter=32)
    all_of_it = task(**SMALL, algorithm=algorithm, upload="top-k", upload_options={"share": 1.0})
    one, other = plain.start(), all_of_it.start()
    for turn in range(3):
        one, other = plain.advance(one, range(4), turn), all_of_it.advance(other, range(4), turn)
    for name, values in one.server.items():
        assert torch.allclose(values, other.server[name], atol=1e-6)


@pytest.mark.parametrize(("name", "options"), COMPRESSED)
def test_devices_learn_with_it(name, options):
    made = task(**SMALL, algorithm="pma", upload=name, upload_options=options)
    state, before = made.start(), made.evaluate(made.start())
    for turn in range(5):
        state = made.advance(state, range(4), turn)
    assert made.evaluate(state).loss < before.loss


@pytest.mark.parametrize("name", ["top-k", "random-k"])
def test_what_nobody_sends_leaves_scaffolds_control_as_it_is(name):
    made = task(**SMALL, algorithm="scaffold", upload=name, upload_options={"share": 0.1})
    first = made.advance(made.start(), range(2), 0)
    second = made.advance(first, range(2), 1)
    changed = first.server["control"] != second.server["control"]
    assert 0 < changed.float().mean() <= 2 * 0.1 + 0.01


@pytest.mark.parametrize(("name", "options"), WAYS)
def test_a_device_goes_on_to_the_bit_with_its_residual(name, options):
    made, again = (task(**SMALL, upload=name, upload_options=options, batch_size=16) for _ in range(2))
    state = made.advance(made.start(), [0, 1], 0)
    held = {k: {n: v.numpy().copy() for n, v in memory.items()} for k, memory in state.devices.items()}
    server = {n: v.numpy().copy() for n, v in state.server.items()}
    resumed = again.start().restored(server, held)
    straight, later = made.advance(state, [1, 2], 1), again.advance(resumed, [1, 2], 1)
    for n, values in straight.server.items():
        assert torch.equal(values, later.server[n])
    keeps = upload(name, options).feedback
    assert all((RESIDUAL + "extractor" in memory) == keeps for memory in later.devices.values())
    if keeps and options.get("share") != 1.0:
        assert later.devices[1][RESIDUAL + "extractor"].any()


def test_a_residual_belongs_to_the_device_that_trained():
    made = task(**SMALL, algorithm="fedavg", upload="sign")
    state = made.advance(made.start(), [1], 0)
    assert list(state.devices) == [1]
    assert isinstance(state, LearningState)
    assert made.method.personal(state.server, state.devices[1]).equal(state.server["model"])


def test_the_bits_set_what_is_charged_and_may_differ_by_device():
    plain, sparse = (workload(learning(algorithm="pma", **changes)).upload_bits for changes in (
        {}, {"upload": "top-k", "upload_options": {"share": 0.01}}
    ))  # fmt: skip
    assert sparse < plain / 20
    mixed = learning(algorithm="pma", upload="qsgd", upload_options={"bits": [2, 4, 8, 4]})
    bits = workload(mixed).upload_bits
    assert bits[0] < bits[1] == bits[3] < bits[2]
    made = task(**SMALL, algorithm="pma", upload="qsgd", upload_options={"bits": [2, 4, 8, 4]})
    expected = made.method.workload.upload_bits
    for device in range(4):
        trained = made.train(made.start(), device, 0)
        size = sum(8 * p.numel() * p.element_size() for parts in trained.upload.values() for p in parts)
        assert size == expected[device]
    made.advance(made.start(), range(4), 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"upload": "topk"}, "did you mean 'top-k'"),
        ({"upload": "top-k", "upload_options": {"share": 0}}, "share"),
        ({"upload": "top-k", "upload_options": {"share": 1.5}}, "share is 1.5; it must be above 0"),
        ({"upload": "top-k", "upload_options": {"value_bits": 8}}, "value_bits"),
        ({"upload": "qsgd", "upload_options": {"bits": 1}}, "bits is 1; it must be from 2 to 16"),
        ({"upload": "qsgd", "upload_options": {"bits": [4, 1]}}, "bits is 1"),
        ({"upload": "qsgd", "upload_options": {"levels": 4}}, "was given the options levels"),
        ({"upload": "qsgd", "upload_options": {"bits": [4], "bucket": [1, 2]}}, "lists of 1 and of 2 values"),
        ({"upload": "qsgd", "upload_options": {"bits": []}}, "lists of 0 values"),
        ({"upload": "qsgd", "upload_options": {"feedback": [True, False]}}, "the same for all devices"),
    ],
)
def test_a_wrong_upload_is_one_clear_line(changes, said):
    with pytest.raises(InputError, match=said) as error:
        workload(learning(algorithm="pma", **changes))
    assert "\n" not in str(error.value)


def test_every_upload_is_tried_here():
    assert {name for name, _ in WAYS} == set(UPLOADS)


def test_the_table_of_uploads_has_every_name_and_option():
    table = (Path(pmafl.__file__).parent.parent / "docs" / "uploads.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}
    assert list(rows) == UPLOADS.names()
    for name, row in rows.items():
        for option in list(inspect.signature(UPLOADS[name]).parameters)[1:]:
            assert f"`{option}`" in row, f"{name} has {option}"
