import numpy as np
import pytest
import torch
from torch.nn import functional

from pmafl.data.partition import Partition
from pmafl.learning.evaluation import MOST_SLICES, pieces_of
from pmafl.learning.task import LearningTask
from tests.learning.synthetic import dataset, learning, partition, task, whole_model


def by_hand(made, state, device, test=None):
    """Run the device's whole model over its own test samples."""
    data = dataset()
    rows = (test or partition(data).test)[device]
    model = made.method.model
    model.load(whole_model(made, state, device))
    model.module.eval()
    with torch.no_grad():
        logits = model.module(torch.from_numpy(data.scaled(data.x_test[rows]))).double()
    y = torch.from_numpy(data.y_test[rows])
    return float((logits.argmax(1) == y).float().mean()), float(functional.cross_entropy(logits, y))


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "pma"},
        {"algorithm": "pma", "shared_layers": 0},
        {"algorithm": "pma", "shared_layers": 4},
        {"algorithm": "fedavg"},
        {"algorithm": "local"},
        {"algorithm": "pma", "model": "tests.learning.user_models:branches", "shared_prefix": "body_"},
        {"algorithm": "pma", "model": "tests.learning.user_models:nested"},
    ],
)
def test_every_devices_own_model_is_tested_on_its_own_samples(changes):
    made = task(**changes)
    state = made.start()
    made.evaluate(state)
    for t in range(2):
        state = made.advance(state, [0, 2], t)
    metrics = made.evaluate(state)
    expected = np.array([by_hand(made, state, k) for k in range(4)])
    np.testing.assert_allclose(metrics.device_accuracy, expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(metrics.device_loss, expected[:, 1], rtol=1e-5)
    assert metrics.accuracy == pytest.approx(expected[:, 0].mean())
    assert metrics.accuracy_std == pytest.approx(expected[:, 0].std(), abs=1e-7)
    assert metrics.worst_tenth_accuracy == pytest.approx(expected[:, 0].min())


@pytest.mark.parametrize("algorithm", ["pma", "fedavg", "local"])
def test_devices_may_be_tested_on_any_samples(algorithm):
    data, rng = dataset(), np.random.default_rng(1)
    test = [np.sort(rng.choice(60, count, replace=False)) for count in (1, 30, 45, 60)]
    made = LearningTask(learning(algorithm=algorithm), data, Partition(partition(data).train, test), 3)
    state = made.advance(made.start(), [0, 1, 3], 0)
    metrics = made.evaluate(state)
    expected = np.array([by_hand(made, state, k, test) for k in range(4)])
    np.testing.assert_allclose(metrics.device_accuracy, expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(metrics.device_loss, expected[:, 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "sliced"),
    [
        (np.arange(100), True),
        (np.r_[3:40, 50:51, 60:100], True),
        (np.array([7]), True),
        (np.arange(0, 100, 2), False),
    ],
)
def test_pieces_hold_all_rows_in_order_and_none_too_many(rows, sliced):
    pieces = pieces_of(rows, most=10)
    numbers = [np.arange(100)[piece] for piece in pieces]
    np.testing.assert_array_equal(np.concatenate(numbers), rows)
    assert all(0 < len(some) <= 10 for some in numbers)
    assert all(isinstance(piece, slice) == sliced for piece in pieces)
    assert sliced == (np.count_nonzero(np.diff(rows) != 1) < MOST_SLICES)


def test_only_a_global_model_has_a_global_accuracy():
    for algorithm, expected in (("pma", False), ("fedrep", False), ("local", False), ("fedavg", True)):
        made = task(algorithm=algorithm)
        assert (made.evaluate(made.start()).global_accuracy is not None) == expected


def test_evaluating_does_not_disturb_training():
    made = task()
    state = made.start()
    undisturbed = made.advance(state, [0, 1], 0)
    made.evaluate(state)
    disturbed = made.advance(state, [0, 1], 0)
    assert torch.equal(undisturbed.server["extractor"], disturbed.server["extractor"])


def test_a_round_without_devices_is_not_evaluated_again():
    made = task()
    state = made.advance(made.start(), [0, 1], 0)
    before = made.evaluate(state)
    idle = made.advance(state, [], 1)
    assert made.evaluate(idle) is before
    moved = made.advance(idle, [2], 2)
    assert made.evaluate(moved).loss != before.loss
