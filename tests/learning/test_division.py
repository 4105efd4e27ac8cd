"""What is shared, by patterns of names: any subset, with the shared values first in the vector."""

import numpy as np
import pytest
import torch
from torch import nn

from pmafl.errors import InputError
from pmafl.learning.method import Method
from pmafl.learning.model import build_model
from pmafl.learning.workload import workload
from tests.learning.synthetic import learning, task, whole_model

USER = "tests.learning.user_models:"


def build(model=USER + "deep", **changes):
    return build_model(learning(model, **changes), (1, 28, 28), 10, np.random.default_rng(0))


def shared_names(model):
    chosen = {id(p) for p in model.shared}
    return [name for name, p in model.module.named_parameters() if id(p) in chosen]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["layer1.*"], ["layer1.weight", "layer1.bias"]),
        (["*.bias", "!layer2.*"], ["layer1.bias", "layer3.bias", "layer4.bias"]),
        (["!layer[1-3].*"], ["layer4.weight", "layer4.bias"]),
        (["layer4.*", "!*.bias", "layer4.bias"], ["layer4.weight", "layer4.bias"]),
    ],
)
def test_the_last_pattern_that_matches_a_name_decides(patterns, names):
    model = build("mlp", shared=patterns)
    assert shared_names(model) == names
    parameters = dict(model.module.named_parameters())
    expected = torch.cat([parameters[name].detach().reshape(-1) for name in names])
    assert torch.equal(model.flat[: model.split], expected)


def test_patterns_for_the_first_layers_are_that_split_to_the_bit():
    by_number, by_name = (
        task(USER + "deep", algorithm="fedrep", **split)
        for split in ({"shared_layers": 1}, {"shared": ["1.0.*"]})
    )
    assert by_name.method.model.layered
    states = [made.advance(made.start(), [0, 2, 3], 0) for made in (by_number, by_name)]
    one, other = (
        whole_model(made, state, 2) for made, state in zip((by_number, by_name), states, strict=True)
    )
    assert torch.equal(one, other)


def test_any_subset_is_aggregated_and_the_rest_stays():
    """The biases alone are shared: devices agree in them and in nothing else."""
    made = task(USER + "deep", algorithm="pma", shared=["*.bias"])
    state = made.advance(made.start(), [0, 1, 2], 0)
    split = made.method.model.split
    models = [whole_model(made, state, device) for device in (0, 1)]
    assert torch.equal(models[0][:split], models[1][:split])
    assert not torch.isclose(models[0][split:], models[1][split:]).all()
    assert made.method.workload.upload_bits == 16 * (20 + 12 + 10)
    assert workload(learning(USER + "deep", shared=["*.bias"]), (1, 28, 28)) == made.method.workload


def test_a_subset_is_trained_as_the_plain_network():
    made = task(USER + "deep", algorithm="pma", shared=["3.*", "*.bias"], iterations=1, momentum=0.0)
    engine, samples = made.method.engine, made.device_samples(1)
    module = build().module
    loss = nn.functional.cross_entropy(module(samples.x), samples.y)
    gradients = dict(
        zip(
            [n for n, _ in module.named_parameters()],
            torch.autograd.grad(loss, [*module.parameters()]),
            strict=True,
        )
    )
    engine.model.load(build(shared=["3.*", "*.bias"]).flat)
    _, gradient = engine.gradient(engine.model.flat.clone(), samples)
    names = [*shared_names(engine.model)]
    names += [name for name, _ in engine.model.module.named_parameters() if name not in names]
    expected = torch.cat([gradients[name].reshape(-1) for name in names])
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "local", "tests.own_ditto:ditto"])
@pytest.mark.parametrize("model", ["branches", "tied"])
def test_who_shares_all_or_nothing_needs_no_split(algorithm, model):
    made = task(USER + model, algorithm=algorithm)
    state = made.advance(made.start(), [0, 1], 0)
    assert made.evaluate(state).accuracy >= 0
    uploads = 0 if algorithm == "local" else made.method.model.parameters
    assert made.method.workload.upload_bits == 16 * uploads


@pytest.mark.parametrize("algorithm", ["pma", "fedrep"])
def test_who_shares_a_part_must_be_told_which(algorithm):
    settings = learning(USER + "branches", algorithm=algorithm)
    line = (
        "Branches has no order of layers to split.*learning.shared.*head.weight, head.bias, body_left.weight"
    )
    with pytest.raises(InputError, match=line):
        Method(settings, (1, 28, 28), 10, 1)
    with pytest.raises(InputError, match=line):
        workload(settings, (1, 28, 28))
    with pytest.raises(InputError, match="two layers use one parameter"):
        workload(learning(USER + "tied", algorithm=algorithm), (1, 28, 28))
    assert Method(learning(USER + "branches", shared=["body_*"]), (1, 28, 28), 10, 1).model.split
    assert Method(learning(USER + "tied", shared=["!1.*"]), (1, 28, 28), 10, 1).model.split == 110


def test_an_algorithm_that_trains_a_part_hears_that_there_is_none():
    engine = task(USER + "branches", algorithm="fedavg").method.engine
    with pytest.raises(InputError, match="has no order of layers to split"):
        engine.train(engine.model.flat.clone(), None, np.random.default_rng(0), 1, part="predictor")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"shared": ["layer7.*"]},
            r"'layer7\.\*' matches no parameter of model 'mlp'; they are layer1.weight",
        ),
        ({"shared": ["*", "!nothing"]}, "'!nothing' matches no parameter"),
        ({"shared": ["layer1.*", "!*"]}, "nothing is left to share"),
        ({"shared": ["layer1.*", ""]}, "shared has an empty pattern"),
        ({"shared": ["*"], "shared_prefix": "layer1"}, "shared and shared_prefix are both set"),
        (
            {"model": USER + "one_table", "shared": ["table.*"]},
            "'table.weight' and 'top.weight' .* are one parameter",
        ),
    ],
)
def test_patterns_that_cannot_be_meant_are_refused_in_one_line(changes, line):
    with pytest.raises(InputError, match=line) as error:
        build(**{"model": "mlp"} | changes)
    assert "\n" not in str(error.value)


def test_frozen_parameters_are_neither_trained_nor_sent():
    made = task(USER + "frozen", algorithm="fedavg", shared_layers=1)
    model = made.method.model
    frozen = model.module[1].weight.clone()
    assert model.parameters == 8 * 10 + 10
    assert made.method.workload.upload_bits == 16 * 90
    state = made.advance(made.start(), [0, 1, 2], 0)
    assert torch.equal(model.module[1].weight, frozen)
    assert not torch.equal(state.server["model"], made.start().server["model"])
    trained = made.train(made.start(), 1, 0)
    plain = build(USER + "frozen", shared_layers=1).module
    plain.load_state_dict(
        task(USER + "frozen", algorithm="fedavg", shared_layers=1).method.model.module.state_dict()
    )
    optimiser = torch.optim.SGD([p for p in plain.parameters() if p.requires_grad], 0.05, 0.9)
    samples = made.device_samples(1)
    for _ in range(5):
        optimiser.zero_grad()
        nn.functional.cross_entropy(plain(samples.x), samples.y).backward()
        optimiser.step()
    expected = torch.cat([p.detach().reshape(-1) for p in plain.parameters() if p.requires_grad])
    torch.testing.assert_close(trained.upload["model"][0].float(), expected, rtol=2e-3, atol=1e-4)
