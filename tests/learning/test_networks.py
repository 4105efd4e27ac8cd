"""The ready networks: their sizes and multiply-adds by hand, their splits, their options."""

import numpy as np
import pytest
import torch

from pmafl.errors import InputError
from pmafl.learning.model import build_model
from pmafl.learning.networks import cnn1d, lstm, resnet8, resnet18
from pmafl.learning.operations import forward_operations
from pmafl.learning.workload import workload
from tests.learning.synthetic import learning


def count(module, *shape):
    return forward_operations(module, torch.zeros(1, *shape), "network")


def convolution(inputs, outputs, kernel, side):
    return inputs * outputs * kernel**2 * side**2


def residual(inputs, outputs, side):
    """A block that changes the number of channels has a third convolution, of single pixels."""
    shortcut = convolution(inputs, outputs, 1, side) if inputs != outputs else 0
    return convolution(inputs, outputs, 3, side) + convolution(outputs, outputs, 3, side) + shortcut


def resnet(first, widths, blocks, side, classes=10):
    total, channels = convolution(first, widths[0], 3, side), widths[0]
    for index, width in enumerate(widths):
        side = side // 2 if index else side
        total += residual(channels, width, side) + (blocks - 1) * residual(width, width, side)
        channels = width
    return total + channels * classes


def test_resnet18_on_32_by_32_takes_555_million():
    assert resnet(3, (64, 128, 256, 512), 2, 32) == 555_422_720
    assert count(resnet18((3, 32, 32), 10), 3, 32, 32) == 555_422_720
    assert sum(p.numel() for p in resnet18((3, 32, 32), 10).parameters()) == 11_173_962


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_resnet8_takes_12_million_with_either_normalisation(norm):
    module = resnet8((3, 32, 32), 10, norm)
    assert count(module, 3, 32, 32) == resnet(3, (16, 32, 64), 1, 32) == 12_501_632
    assert sum(p.numel() for p in module.parameters()) == 78_042
    assert bool(list(module.buffers())) == (norm == "batch")


def test_the_network_for_sensor_windows():
    module = cnn1d((100, 6), 7)
    by_hand = 100 * 6 * 32 * 5 + 50 * 32 * 64 * 5 + 25 * 64 * 64 * 3 + 64 * 7
    assert count(module, 100, 6) == by_hand == 915_648
    assert sum(p.numel() for p in module.parameters()) == 24_103
    reversed_time = module(torch.arange(600.0).view(1, 100, 6).flip(1))
    assert not torch.allclose(module(torch.arange(600.0).view(1, 100, 6)), reversed_time)


def test_the_lstm_reads_rows_of_images_and_steps_of_windows():
    assert count(lstm((1, 28, 28), 10), 1, 28, 28) == 660_096
    assert count(lstm((100, 6), 7, units=32, layers=2), 100, 6) == 100 * 128 * (38 + 64) + 32 * 7
    rows = torch.randn(2, 1, 28, 28)
    module = lstm((1, 28, 28), 10)
    expected = module.fc(module.body.lstm(rows[:, 0])[0][:, -1])
    torch.testing.assert_close(module(rows), expected)


@pytest.mark.parametrize(
    ("name", "shape", "layers"),
    [("resnet8", (3, 16, 16), 6), ("resnet18", (3, 8, 8), 11), ("cnn1d", (40, 3), 4), ("lstm", (9, 4), 2)],
)
def test_a_ready_network_splits_by_layers_and_by_names(name, shape, layers):
    def build(**changes):
        return build_model(learning(name, **changes), shape, 5, np.random.default_rng(0))

    model = build(shared_layers=layers - 1)
    head = sum(p.numel() for key, p in model.module.named_parameters() if key.startswith("fc."))
    assert model.parameters - model.split == head
    assert model.layered
    assert build(shared=["!fc.*"]).split == model.split
    assert build(shared=["!fc.*"]).layered
    only_top = build(shared=["fc.*"])
    assert (only_top.split, only_top.layered) == (head, False)
    x = torch.randn(3, *shape)
    model.module.eval()
    torch.testing.assert_close(model(x), model.module(x))


def test_options_of_a_network_are_checked_against_its_signature():
    grouped = learning("resnet8", model_options={"norm": "group"})
    assert workload(grouped, (3, 8, 8)).upload_bits < workload(learning("resnet8"), (3, 8, 8)).upload_bits
    for model, options, line in [
        (
            "resnet8",
            {"norm": "layer"},
            "network 'resnet8', option norm = 'layer': must be 'batch' or 'group'",
        ),
        ("resnet8", {"depth": 3}, "network 'resnet8' was given the options depth; it has norm"),
        ("mlp", {"width": 3}, "network 'mlp' was given the options width; it has none"),
    ]:
        with pytest.raises(InputError, match=line):
            build_model(learning(model, model_options=options), (1, 28, 28), 10, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "shape", "line"),
    [("resnet8", (28, 28), "needs images of shape"), ("cnn1d", (3, 6), "at least 4 steps"),
     ("lstm", (2, 3, 4, 5), r"needs samples of shape \(steps, features\)")],
)  # fmt: skip
def test_samples_of_another_kind_are_refused_in_one_line(name, shape, line):
    with pytest.raises(InputError, match=line):
        build_model(learning(name), shape, 10, np.random.default_rng(0))
