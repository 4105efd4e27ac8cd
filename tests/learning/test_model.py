import numpy as np
import pytest
import torch
from torch import nn

from pmafl.errors import InputError
from pmafl.learning.architecture import ARCHITECTURES
from pmafl.learning.model import build_model
from pmafl.learning.operations import forward_operations
from tests.learning.synthetic import SHAPES, learning, task

USER = "tests.learning.user_models:"


def build(model, seed=0, **changes):
    shape = SHAPES.get(model, (1, 28, 28))
    return build_model(learning(model, **changes), shape, 10, np.random.default_rng(seed))


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_the_module_is_what_the_architecture_describes(name):
    architecture, model = ARCHITECTURES[name](), build(name)
    assert model.parameters == architecture.parameters
    counted = forward_operations(model.module, torch.zeros(1, *SHAPES[name]), name)
    assert counted == architecture.multiply_adds


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_parameters_are_views_of_one_vector_in_order_of_layers(name):
    model = build(name)
    expected = torch.cat([p.reshape(-1) for p in model.module.parameters()])
    assert torch.equal(model.flat, expected)
    model.load(torch.zeros(model.parameters))
    assert all(not p.any() for p in model.module.parameters())


def test_the_cnn_is_the_textbook_network():
    model = build("cnn", shared_layers=3)
    w1, b1, w2, b2, *dense = model.module.parameters()
    x = torch.randn(4, 3, 32, 32)
    h = nn.functional.max_pool2d(torch.relu(nn.functional.conv2d(x, w1, b1)), 2)
    h = nn.functional.max_pool2d(torch.relu(nn.functional.conv2d(h, w2, b2)), 2).flatten(1)
    h = torch.relu(nn.functional.linear(h, *dense[:2]))
    h = torch.relu(nn.functional.linear(h, *dense[2:4]))
    expected = nn.functional.linear(h, *dense[4:])
    torch.testing.assert_close(model(x.contiguous(memory_format=torch.channels_last)), expected)


@pytest.mark.parametrize("layers", range(6))
def test_the_extractor_is_the_leading_slice_of_any_length(layers):
    model = build("cnn", shared_layers=layers)
    assert model.split == sum(p.numel() for p in model.extractor.parameters())
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(model.predictor(model.extractor(x)), model.module(x))


def test_a_sequential_with_a_forward_of_its_own_is_no_chain():
    model = build(USER + "doubled", algorithm="fedavg")
    x = torch.randn(2, 1, 28, 28)
    _, first, _, last = model.module
    expected = 2 * last(torch.tanh(first(x.flatten(1))))
    torch.testing.assert_close(model(x), expected)
    with pytest.raises(InputError, match="a Doubled has no order of layers to split"):
        task(model=USER + "doubled", algorithm="pma", shared_layers=1)


def test_initial_weights_follow_their_seed_alone():
    before = torch.get_rng_state()
    first, other = build("mlp", 1), build("mlp", 2)
    torch.manual_seed(99)
    assert torch.equal(first.flat, build("mlp", 1, shared_layers=3).flat)
    assert not torch.equal(first.flat, other.flat)
    torch.set_rng_state(before)
    build("mlp", 1)
    assert torch.equal(before, torch.get_rng_state())


def test_a_users_chain_splits_where_its_parameters_are():
    model = build(USER + "nested", shared_layers=2)
    assert [type(m).__name__ for m in model.extractor.modules()][-3:] == ["GroupNorm", "ReLU", "Flatten"]
    assert model.split == 4 * 9 + 4 + 4 + 4
    assert model.layered


def test_a_prefix_splits_any_module_with_the_shared_part_first():
    model = build(USER + "branches", shared_prefix="body_")
    assert model.split == 2 * (784 * 12 + 12)
    assert not model.layered
    left = model.module.body_left.weight
    assert torch.equal(model.flat[: left.numel()], left.detach().reshape(-1))


def test_a_prefix_that_names_leading_layers_is_a_split_by_layers():
    assert build("mlp", shared_prefix="layer1.").split == build("mlp", shared_layers=1).split
    assert build("mlp", shared_prefix="layer1.").layered
    assert not build("mlp", shared_prefix="layer2.").layered


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model": "resnet"}, "did you mean 'resnet8'"),
        ({"model": "perceiver"}, "choose mlp, cnn, resnet8, resnet18, cnn1d, lstm or package.module:name"),
        ({"model": "no.such.module:net"}, "there is no module 'no'"),
        ({"model": USER + "missing"}, "has no 'missing'"),
        ({"model": USER + "branches", "shared_prefix": "tail"}, "they are head.weight"),
        ({"model": USER + "too_many_classes"}, r"gives outputs of shape \(2, 11\)"),
        ({"model": USER + "a_dict"}, r"gives a dict for 2 samples; must give one tensor, \(2, 10\)"),
        ({"model": USER + "wrong_input"}, "does not take inputs of shape"),
        ({"model": USER + "no_parameters", "shared_layers": 0}, "has no parameters"),
        ({"model": USER + "not_a_module"}, "returned str"),
        ({"model": USER + "frozen", "shared": ["1.*"]}, r"'1\.\*' matches only frozen parameters"),
        ({"model": USER + "all_frozen"}, "has no parameters to train"),
        ({"model": USER + "half_precision"}, "'2.weight' is torch.bfloat16; must be torch.float32"),
        ({"model": USER + "fails"}, "failed: no weights found"),
        ({"model": USER + "fails_silently"}, "failed: NotImplementedError"),
        ({"model": USER + "nested", "shared_layers": 5}, "must be 0 to 4"),
        ({"model": "mlp", "shared_layers": 7}, "must be 0 to 4"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_in_one_line(changes, line):
    with pytest.raises(InputError, match=line) as error:
        build(changes.pop("model"), **changes)
    assert "\n" not in str(error.value)
