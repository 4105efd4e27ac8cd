import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.learning.synthetic import dataset, partition, task


def by_hand(made, state, device):
    """Run the device's whole model over its own test samples."""
    data = dataset()
    rows = partition(data).test[device]
    made.model.load(torch.cat([state.extractor, state.head(device)]))
    made.model.module.eval()
    with torch.no_grad():
        logits = made.model.module(torch.from_numpy(data.scaled(data.x_test[rows]))).double()
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
        state, _ = made.advance(state, [0, 2], t)
    metrics = made.evaluate(state)
    expected = np.array([by_hand(made, state, k) for k in range(4)])
    np.testing.assert_allclose(metrics.device_accuracy, expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(metrics.device_loss, expected[:, 1], rtol=1e-5)
    assert metrics.accuracy == pytest.approx(expected[:, 0].mean())
    assert metrics.accuracy_std == pytest.approx(expected[:, 0].std(), abs=1e-7)
    assert metrics.worst_tenth_accuracy == pytest.approx(expected[:, 0].min())


def test_only_a_global_model_has_a_global_accuracy():
    for algorithm, expected in (("pma", False), ("fedrep", False), ("local", False), ("fedavg", True)):
        made = task(algorithm=algorithm)
        assert (made.evaluate(made.start()).global_accuracy is not None) == expected


def test_evaluating_does_not_disturb_training():
    made = task()
    state = made.start()
    undisturbed, _ = made.advance(state, [0, 1], 0)
    made.evaluate(state)
    disturbed, _ = made.advance(state, [0, 1], 0)
    assert torch.equal(undisturbed.extractor, disturbed.extractor)
