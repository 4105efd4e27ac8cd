"""Other chains and layouts change where time goes, never what comes out."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from pmafl.learning.inputs import Samples
from pmafl.learning.layout import Chain, OneDnnChain, fits_onednn, suits_channels_last
from pmafl.learning.model import build_model
from tests.learning.synthetic import learning
from tests.rounding import FLOAT32

SMALL_CNN = [
    nn.Conv2d(1, 8, 3, stride=2, padding=1),
    nn.ReLU(inplace=True),
    nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
    nn.Conv2d(8, 4, 3, dilation=2, groups=2, bias=False),
    nn.MaxPool2d(2, stride=1),
    nn.ReLU(inplace=True),
    nn.Flatten(),
    nn.Dropout(0.0),
    nn.Linear(4 * 3 * 3, 10),
]


def outputs_and_gradients(chain, x):
    chain.zero_grad()
    scores = chain(x)
    scores.square().sum().backward()
    return [scores.detach(), *(p.grad.clone() for p in chain.parameters())]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_chain_computes_the_same_in_either_layout(memory_format):
    assert fits_onednn(SMALL_CNN)
    x = torch.randn(6, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    plain = outputs_and_gradients(nn.Sequential(*SMALL_CNN), x)
    chain = OneDnnChain(*copy.deepcopy(SMALL_CNN))
    for value, truth in zip(
        outputs_and_gradients(chain, x.contiguous(memory_format=memory_format)), plain, strict=True
    ):
        assert (value - truth).norm() <= FLOAT32 * truth.norm()


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("first", [[], [nn.Flatten()], [nn.ReLU()], [nn.Linear(8, 8, bias=False)]])
def test_dense_layers_compute_the_same_and_leave_their_inputs(grad, first):
    members = [*first, nn.Linear(8, 8), nn.ReLU(), nn.ReLU(), nn.Linear(8, 3), nn.Sigmoid(), nn.ReLU()]
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    before = x.clone()
    with torch.set_grad_enabled(grad):
        scores = Chain(*members)(x)
        torch.testing.assert_close(scores, nn.Sequential(*members)(x))
    assert scores.requires_grad == grad
    assert torch.equal(x, before)


def test_pooling_comes_before_relu_to_the_same_bits():
    members = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.ReLU(), nn.MaxPool2d(2)]
    chain, plain = OneDnnChain(*members), OneDnnChain()
    for member in members:
        plain.append(copy.deepcopy(member))
    assert [type(member) for member in chain] == [nn.Conv2d, nn.MaxPool2d, nn.ReLU] * 2
    x = torch.randn(6, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    for value, truth in zip(outputs_and_gradients(chain, x), outputs_and_gradients(plain, x), strict=True):
        assert torch.equal(value, truth)


def test_what_a_chain_returns_is_an_ordinary_tensor():
    features = OneDnnChain(*SMALL_CNN[:3])(torch.zeros(2, 1, 28, 28))
    assert features.layout == torch.strided


@pytest.mark.parametrize(
    "member",
    [
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(1, 2, 3, padding="same"),
        nn.MaxPool2d(2, dilation=2),
        nn.GroupNorm(1, 1),
        nn.GELU(),
    ],
)
def test_a_network_with_anything_else_keeps_torchs_layout(member):
    assert not fits_onednn([nn.Conv2d(1, 1, 3), member])


def test_a_network_without_convolutions_keeps_torchs_layout():
    assert not fits_onednn([nn.Linear(4, 4), nn.ReLU()])


def test_the_papers_cnn_runs_in_onednns_layout_at_any_split():
    for layers in range(6):
        model = build_model(learning("cnn", shared_layers=layers), (3, 32, 32), 10, np.random.default_rng(1))
        x = torch.randn(2, 3, 32, 32)
        assert isinstance(model.predictor, OneDnnChain)
        torch.testing.assert_close(model(x), model.module(x), rtol=0, atol=FLOAT32)


def test_narrow_strided_convolutions_of_single_pixels_keep_the_usual_layout():
    assert suits_channels_last([nn.Conv2d(3, 16, 3), nn.Conv2d(16, 32, 1, stride=2)])
    assert suits_channels_last([nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 3, stride=2)])
    assert not suits_channels_last([nn.Conv2d(16, 16, 3), nn.Conv2d(4, 8, 1, stride=2)])
    assert not suits_channels_last([nn.Conv2d(64, 64, 1, stride=2, groups=8)])
    assert not suits_channels_last([nn.Linear(4, 4)])


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_rows_of_samples_keep_the_layout(memory_format):
    x = torch.arange(5.0 * 3 * 4 * 4).view(5, 3, 4, 4).contiguous(memory_format=memory_format)
    order = torch.tensor([4, 0, 2])
    rows = Samples(x, torch.arange(5)).rows(order)
    assert torch.equal(rows.x, x[order])
    assert torch.equal(rows.y, order)
    assert rows.x.is_contiguous(memory_format=memory_format)
