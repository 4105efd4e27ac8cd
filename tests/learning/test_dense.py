"""The hand-written gradients against autograd's, layer by layer and part by part."""

import numpy as np
import pytest
import torch
from torch import nn

from pmafl.learning.autograd import Autograd
from pmafl.learning.dense import Dense, is_dense
from pmafl.learning.engine import Engine
from pmafl.learning.inputs import Samples
from pmafl.learning.model import build_model
from tests.learning.synthetic import learning

USERS = "tests.learning.user_models:"


def model_for(name="mlp", **changes):
    return build_model(learning(name, **changes), (1, 28, 28), 10, np.random.default_rng(1))


def samples_for(count):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, 1, 28, 28, generator=generator)
    return Samples(x, torch.randint(10, (count,), generator=generator))


def far_from_kinks(model):
    """Units that are on or off for every sample, so that rounding decides nothing."""
    *hidden, _ = (layer for layer in model.module.modules() if isinstance(layer, nn.Linear))
    with torch.no_grad():
        for layer in hidden:
            layer.weight.mul_(0.2)
            layer.bias.copy_(1.0 - 2 * (torch.arange(len(layer.bias)) % 2))
    return model


def gradients(model, samples, part, precision=torch.float32):
    """Loss and gradient of the part, by hand and by autograd."""
    where = {"all": slice(None), "extractor": slice(model.split), "predictor": slice(model.split, None)}[part]
    for passes in (Dense(model, precision), Autograd(model, torch.float32)):
        model.gradient.fill_(torch.nan)  # what an earlier call left there must not matter
        loss = torch.zeros(())
        passes.differentiate(passes.begin(samples, part), loss=loss)
        yield float(loss), model.gradient[where].clone()


@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
@pytest.mark.parametrize("layers", range(1, 4))
@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_gradients_are_those_of_autograd(part, layers, precision, tolerance):
    (loss, by_hand), (expected, truth) = gradients(
        model_for(shared_layers=layers), samples_for(60), part, precision
    )
    assert loss == pytest.approx(expected, rel=tolerance)
    assert (by_hand - truth).norm() < tolerance * truth.norm()


@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_chunks_add_up_to_the_whole_batch(precision, tolerance):
    model, samples = far_from_kinks(model_for()), samples_for(2300)  # three chunks, the last one smaller
    (loss, by_hand), (expected, truth) = gradients(model, samples, "all", precision)
    assert loss == pytest.approx(expected, rel=tolerance)
    assert (by_hand - truth).norm() < tolerance * truth.norm()


def test_a_users_chain_of_any_length_is_differentiated_by_hand():
    for name in ("linear", "deep"):
        model = model_for(USERS + name, shared_layers=1)
        assert is_dense(model)
        (_, by_hand), (_, truth) = gradients(model, samples_for(30), "all")
        assert (by_hand - truth).norm() < 1e-5 * truth.norm()


@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("proximal_weight", [0.0, 0.5])
@pytest.mark.parametrize("count", [40, 900])  # fewer samples than the first layer has inputs, and more
def test_full_batch_training_is_that_of_autograd(part, momentum, proximal_weight, count):
    rates = {"extractor_rate": 0.05, "predictor_rate": 0.02}
    settings = learning(momentum=momentum, **rates)
    engine, reference = (Engine(far_from_kinks(model_for()), settings) for _ in range(2))
    reference._passes = Autograd(reference.model, torch.float32)
    weights, samples = engine.model.flat.clone(), samples_for(count)
    trained, truth = (
        some.train(weights, samples, np.random.default_rng(0), 4, part, proximal_weight) - weights
        for some in (engine, reference)
    )
    assert (trained - truth).norm() < 1e-4 * truth.norm()


def test_training_that_was_broken_off_leaves_no_trace():
    model, samples = model_for(), samples_for(40)
    start, passes = model.flat.clone(), Dense(model, torch.float32)
    passes.differentiate(passes.begin(samples, "all", steps=5))
    model.load(start)
    passes.differentiate(passes.begin(samples, "all"))
    assert torch.equal(model.flat, start)
    assert torch.equal(model.gradient, Engine(model, learning()).gradient(start, samples)[1])


@pytest.mark.parametrize("name", ["nested", "with_dropout", "without_bias", "with_sigmoid", "relu_last"])
def test_other_networks_are_left_to_autograd(name):
    model = model_for(USERS + name, shared_layers=1)
    assert not is_dense(model)
    loss, _ = Engine(model, learning()).gradient(model.flat.clone(), samples_for(10))
    assert np.isfinite(loss)


def test_a_split_by_name_across_layers_is_left_to_autograd():
    assert not is_dense(model_for(USERS + "deep", shared_prefix="3."))


def test_the_samples_stay_as_they_are():
    model, samples = model_for(), samples_for(20)
    before = samples.x.clone()
    passes = Dense(model, torch.float32)
    passes.differentiate(passes.begin(samples, "all"))
    assert torch.equal(samples.x, before)
