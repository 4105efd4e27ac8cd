"""The hand-written gradients against autograd's, layer by layer and part by part."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from pmafl.learning import dense
from pmafl.learning.autograd import Autograd
from pmafl.learning.dense import Dense, dense_part
from pmafl.learning.dense import _mask as draw_mask
from pmafl.learning.engine import Engine
from pmafl.learning.inputs import Samples
from pmafl.learning.model import build_model
from tests.learning.synthetic import learning
from tests.rounding import KINKS

USERS = "tests.learning.user_models:"


def model_for(name="mlp", **changes):
    return build_model(learning(name, **changes), (1, 28, 28), 10, np.random.default_rng(1))


def dense_for(model, precision=torch.float32):
    return Dense(model, precision, dense_part(model))


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
    for passes in (dense_for(model, precision), Autograd(model, torch.float32)):
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
        assert dense_part(model) == 0
        (_, by_hand), (_, truth) = gradients(model, samples_for(30), "all")
        assert (by_hand - truth).norm() < 1e-5 * truth.norm()


@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("proximal_weight", [0.0, 0.5])
@pytest.mark.parametrize("count", [40, 900])  # fewer samples than the first layer has inputs, and more
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("bf16", 0.02)])
def test_full_batch_training_is_that_of_autograd(
    part, momentum, proximal_weight, count, precision, tolerance
):
    rates = {"extractor_rate": 0.05, "predictor_rate": 0.02}
    settings = learning(momentum=momentum, precision=precision, **rates)
    engine, reference = (Engine(far_from_kinks(model_for()), settings) for _ in range(2))
    reference._passes = Autograd(reference.model, torch.float32)
    weights, samples = engine.model.flat.clone(), samples_for(count)
    trained, truth = (
        some.train(weights, samples, np.random.default_rng(0), 4, part, proximal_weight) - weights
        for some in (engine, reference)
    )
    assert (trained - truth).norm() < tolerance * truth.norm()


def test_training_that_was_broken_off_leaves_no_trace():
    model, samples = model_for(), samples_for(40)
    start, passes = model.flat.clone(), dense_for(model)
    passes.differentiate(passes.begin(samples, "all", steps=5))
    model.load(start)
    passes.differentiate(passes.begin(samples, "all"))
    assert torch.equal(model.flat, start)
    assert torch.equal(model.gradient, Engine(model, learning()).gradient(start, samples)[1])


@pytest.mark.parametrize("name", ["without_bias", "with_sigmoid", "relu_last", "dropout_before_relu"])
def test_other_networks_are_left_to_autograd(name):
    model = model_for(USERS + name, shared_layers=1)
    assert dense_part(model) is None
    loss, _ = Engine(model, learning()).gradient(model.flat.clone(), samples_for(10))
    assert np.isfinite(loss)


def test_a_split_by_name_across_layers_is_left_to_autograd():
    assert dense_part(model_for(USERS + "deep", shared_prefix="3.")) is None


@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
@pytest.mark.parametrize("layers", range(1, 4))
@pytest.mark.parametrize("name", ["small_cnn", "nested"])
def test_gradients_below_dense_layers_are_those_of_autograd(name, layers, part):
    model = model_for(USERS + name, shared_layers=layers)
    assert dense_part(model) is not None
    (loss, by_hand), (expected, truth) = gradients(model, samples_for(30), part)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert (by_hand - truth).norm() <= 1e-5 * truth.norm()


@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
@pytest.mark.parametrize("name", ["small_cnn", "deep"])
@pytest.mark.parametrize("layers", [1, 2])
def test_plain_steps_are_those_of_autograd(name, layers, part):
    rates = {"extractor_rate": 0.05, "predictor_rate": 0.02}
    settings = learning(momentum=0.0, batch_size=16, **rates)
    engine, reference = (Engine(model_for(USERS + name, shared_layers=layers), settings) for _ in range(2))
    reference._passes = Autograd(reference.model, torch.float32)
    weights, samples = engine.model.flat.clone(), samples_for(40)
    trained, truth = (
        some.train(weights, samples, np.random.default_rng(0), 2, part) - weights
        for some in (engine, reference)
    )
    assert engine._passes.left < engine.model.parameters  # steps are made where gradients are
    assert (trained - truth).norm() < KINKS * truth.norm()


class Masked(nn.Module):
    """Dropout with masks that were drawn before, in their order."""

    def __init__(self, masks):
        super().__init__()
        self.masks = masks

    def forward(self, x):
        return x * self.masks.pop(0).view(x.shape)


@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
@pytest.mark.parametrize(
    ("name", "layers"), [("cnn_with_dropout", 1), ("cnn_with_dropout", 2), ("with_dropout", 1)]
)
def test_gradients_with_dropout_are_those_of_autograd_with_the_same_masks(name, layers, part, monkeypatch):
    model, samples, drawn = model_for(USERS + name, shared_layers=layers), samples_for(12), []

    def mask(x, layer):
        if (made := draw_mask(x, layer)) is not None:
            with torch.inference_mode(False):
                drawn.append(made.clone())
        return made

    monkeypatch.setattr(dense, "_mask", mask)
    passes = dense_for(model)
    passes.differentiate(passes.begin(samples, part))
    by_hand = model.gradient.clone()
    masked = [Masked(drawn) if type(member) is nn.Dropout else member for member in model.module]
    model.train_only(shared=part != "predictor", personal=part != "extractor")
    model.gradient.zero_()
    nn.functional.cross_entropy(nn.Sequential(*masked)(samples.x), samples.y).backward()
    assert not drawn
    assert by_hand.norm() > 0
    assert (by_hand - model.gradient).norm() <= 1e-5 * by_hand.norm()


@pytest.mark.parametrize("dropped", [0.25, 0.3, 0.001, 1.0])
def test_dropout_keeps_the_mean(dropped):
    layer = SimpleNamespace(dropped=dropped, boost=1 / (1 - dropped) if dropped < 1 else 0.0)
    torch.manual_seed(1)
    mask = draw_mask(torch.empty(999, 401), layer)
    values = set(mask.unique().tolist())
    assert values == {0.0} if dropped == 1 else len(values) == 2
    zeros, count = float((mask == 0).sum()), mask.numel()
    assert abs(zeros - dropped * count) <= 5 * (dropped * (1 - dropped) * count) ** 0.5
    for axis in (0, 1):  # no row or column is special
        share = (mask == 0).float().mean(axis)
        assert share.std() < 0.01 + 2 * (dropped * (1 - dropped) / mask.shape[axis]) ** 0.5


def test_dropout_follows_the_generator_of_the_training():
    engine = Engine(model_for(USERS + "with_dropout", shared_layers=1), learning(batch_size=8))
    weights, samples = engine.model.flat.clone(), samples_for(20)
    state = torch.random.get_rng_state()
    one, same, other = (engine.train(weights, samples, np.random.default_rng(seed), 2) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_samples_stay_as_they_are():
    model, samples = model_for(), samples_for(20)
    before = samples.x.clone()
    passes = dense_for(model)
    passes.differentiate(passes.begin(samples, "all"))
    assert torch.equal(samples.x, before)
