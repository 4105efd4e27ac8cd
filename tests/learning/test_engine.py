from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from pmafl.learning.engine import Engine
from pmafl.learning.inputs import Samples
from pmafl.learning.model import build_model
from tests.learning.synthetic import SHAPES, learning
from tests.rounding import FLOAT32, KINKS

SPLITS = [("mlp", layers) for layers in range(5)] + [("cnn", layers) for layers in range(6)]
COUNT = 120  # more than two chunks of the CNN, and no multiple of one


def engine_for(model, **changes):
    settings = learning(model, **changes)
    return Engine(build_model(settings, SHAPES[model], 10, np.random.default_rng(1)), settings)


def samples_for(model, count=COUNT):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, *SHAPES[model], generator=generator)
    if model == "cnn":
        x = x.contiguous(memory_format=torch.channels_last)
    return Samples(x, torch.randint(10, (count,), generator=generator))


def textbook(model):
    """The same networks as a tutorial writes them, ReLU before pooling."""
    if model == "mlp":
        units = (784, 512, 256, 64)
        hidden = [m for a, b in pairwise(units) for m in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(64, 10))
    convolutions = (nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 5), nn.ReLU())
    dense = (nn.Linear(1600, 120), nn.ReLU(), nn.Linear(120, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), *dense)


def textbook_with(model, flat):
    network = textbook(model)
    nn.utils.vector_to_parameters(flat.clone(), network.parameters())
    return network


def relative_error(value, truth):
    return float((value - truth).norm() / truth.norm())


@pytest.mark.parametrize(("model", "layers"), SPLITS)
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.1)])
def test_the_gradient_is_autograds_on_the_plain_model(model, layers, precision, tolerance):
    engine, samples = engine_for(model, shared_layers=layers, precision=precision), samples_for(model)
    weights = engine.model.flat.clone()
    loss, gradient = engine.gradient(weights, samples)
    network = textbook_with(model, weights)
    expected = nn.functional.cross_entropy(network(samples.x.contiguous()), samples.y)
    expected.backward()
    truth = torch.cat([p.grad.reshape(-1) for p in network.parameters()])
    assert loss == pytest.approx(expected.item(), rel=tolerance)
    assert relative_error(gradient, truth) < (max(tolerance, KINKS) if model == "cnn" else tolerance)


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_full_batch_training_is_torchs_sgd_with_two_rates(model):
    layers = {"mlp": 2, "cnn": 4}[model]
    engine = engine_for(model, shared_layers=layers, extractor_rate=0.05, predictor_rate=0.02)
    samples, weights = samples_for(model, 60), engine.model.flat.clone()
    network = textbook_with(model, weights)
    parameters = list(network.parameters())
    groups = [
        {"params": parameters[: 2 * layers], "lr": 0.05},
        {"params": parameters[2 * layers :], "lr": 0.02},
    ]
    optimiser = torch.optim.SGD(groups, momentum=0.9)
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(samples.x.contiguous()), samples.y).backward()
        optimiser.step()
    trained = engine.train(weights, samples, np.random.default_rng(0), 3)
    change, truth = trained - weights, nn.utils.parameters_to_vector(parameters).detach() - weights
    assert relative_error(change, truth) < KINKS


def test_an_epoch_of_mini_batches_sees_every_sample_once_in_the_drawn_order():
    engine, samples = engine_for("mlp", batch_size=50), samples_for("mlp")
    weights = engine.model.flat.clone()
    trained = engine.train(weights, samples, np.random.default_rng(7), 2)
    network, rng = textbook_with("mlp", weights), np.random.default_rng(7)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for _ in range(2):
        for rows in torch.from_numpy(rng.permutation(COUNT)).split(50):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(samples.x[rows]), samples.y[rows]).backward()
            optimiser.step()
    truth = nn.utils.parameters_to_vector(network.parameters()).detach()
    assert relative_error(trained - weights, truth - weights) < KINKS


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_training_one_part_leaves_the_other_as_it_is(model):
    engine, samples = engine_for(model), samples_for(model, 60)
    weights, split = engine.model.flat.clone(), engine.model.split
    head = engine.train(weights, samples, np.random.default_rng(0), 2, part="predictor")
    extractor = engine.train(weights, samples, np.random.default_rng(0), 2, part="extractor")
    assert torch.equal(head[:split], weights[:split])
    assert not torch.equal(head[split:], weights[split:])
    assert torch.equal(extractor[split:], weights[split:])
    assert not torch.equal(extractor[:split], weights[:split])


def test_the_first_step_of_a_part_is_that_part_of_the_joint_step():
    engine, samples = engine_for("mlp"), samples_for("mlp")
    weights, split = engine.model.flat.clone(), engine.model.split
    joint = engine.train(weights, samples, np.random.default_rng(0), 1)
    head = engine.train(weights, samples, np.random.default_rng(0), 1, part="predictor")
    torch.testing.assert_close(head[split:], joint[split:], rtol=0, atol=1e-7)


@pytest.mark.parametrize(("layers", "part"), [(0, "extractor"), (4, "predictor")])
def test_training_an_empty_part_changes_nothing(layers, part):
    engine = engine_for("mlp", shared_layers=layers)
    weights = engine.model.flat.clone()
    assert torch.equal(engine.train(weights, samples_for("mlp"), np.random.default_rng(0), 2, part), weights)


def test_the_proximal_term_pulls_towards_the_start():
    engine, samples = engine_for("mlp"), samples_for("mlp")
    weights = engine.model.flat.clone()
    free, held = (
        engine.train(weights, samples, np.random.default_rng(0), 5, proximal_weight=weight) - weights
        for weight in (0.0, 1.0)
    )
    assert held.norm() < free.norm()
    one_step = engine.train(weights, samples, np.random.default_rng(0), 1, proximal_weight=1.0)
    free_step = engine.train(weights, samples, np.random.default_rng(0), 1)
    assert relative_error(one_step - weights, free_step - weights) < FLOAT32


def test_a_call_leaves_no_trace_in_the_next():
    engine, samples = engine_for("mlp"), samples_for("mlp")
    weights = engine.model.flat.clone()
    first = engine.train(weights, samples, np.random.default_rng(0), 3)
    engine.train(torch.zeros_like(weights), samples, np.random.default_rng(0), 3, part="predictor")
    assert torch.equal(first, engine.train(weights, samples, np.random.default_rng(0), 3))
