"""Running statistics under every setting: as a plain training loop has them, on the server and on devices."""

import numpy as np
import pytest
import torch
from torch import nn

from pmafl.errors import InputError
from pmafl.learning.method import Method
from pmafl.learning.model import build_model
from tests.learning.synthetic import learning, task, whole_model

USER = "tests.learning.user_models:"
NORMALISED = USER + "normalised"
VALUES = {"trained": 4 * 9 + 4 + 4 + 4 + 4 * 169 * 10 + 10, "statistics": 8}


def made_with(buffers="shared", algorithm="fedavg", **changes):
    return task(NORMALISED, algorithm=algorithm, buffers=buffers, **{"shared_layers": 2} | changes)


def plain_copy(made, buffers="shared"):
    """The network as torch knows it, with the initial weights."""
    module = build_model(made.method.learning, (1, 28, 28), 10, np.random.default_rng(0)).module
    module.load_state_dict(
        {name: value.clone() for name, value in made.method.model.module.state_dict().items()}
    )
    return module.train()


def train_plainly(module, samples, steps=5, batches=None):
    optimiser = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], 0.05, 0.9)
    for rows in batches or [slice(None)] * steps:
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(samples.x[rows]), samples.y[rows]).backward()
        optimiser.step()


def values_of(module):
    """Parameters and statistics in the order of a model with everything in one part."""
    floats = [b for b in module.buffers() if b.is_floating_point()]
    return torch.cat([value.detach().reshape(-1) for value in (*module.parameters(), *floats)])


def test_statistics_stand_behind_the_parameters_of_their_part():
    model = made_with(shared_layers=2).method.model
    module = model.module
    first = [module[0].weight, module[0].bias, module[1].weight, module[1].bias]
    first += [module[1].running_mean, module[1].running_var]
    expected = torch.cat([value.detach().reshape(-1) for value in (*first, module[4].weight, module[4].bias)])
    assert torch.equal(model.flat, expected)
    assert model.split == 4 * 9 + 4 + 8 + 8
    assert (model.statistics, len(model.own)) == (8, 0)
    assert made_with("personal").method.model.split == 4 * 9 + 4 + 8
    assert len(made_with("personal").method.model.own) == 8


@pytest.mark.parametrize("batch_size", [0, 7])
@pytest.mark.parametrize("buffers", ["shared", "personal"])
def test_training_gives_the_weights_and_statistics_of_a_plain_loop(buffers, batch_size):
    """In full batches and in mini-batches, whose statistics are those of each batch."""
    made = made_with(buffers, shared_layers=3, batch_size=batch_size)
    samples, plain = made.device_samples(1), plain_copy(made)
    batches = None
    if batch_size:
        rng = np.random.default_rng(4)
        batches = []
        for _ in range(5):
            order = torch.from_numpy(rng.permutation(len(samples.y)))
            parts = list(order.split(batch_size))
            if len(parts[-1]) == 1:
                parts[-2:] = [torch.cat(parts[-2:])]
            batches += parts
    train_plainly(plain, samples, batches=batches)
    model, engine = made.method.model, made.method.engine
    engine.train(model.flat.clone(), samples, np.random.default_rng(4), 5)
    torch.testing.assert_close(model.whole, values_of(plain), rtol=1e-4, atol=1e-5)


def test_the_gradient_is_that_of_the_whole_batch():
    made = made_with(shared_layers=3)
    model, samples, plain = made.method.model, made.device_samples(2), plain_copy(made)
    loss = nn.functional.cross_entropy(plain(samples.x), samples.y)
    loss.backward()
    model.chunk = 3  # which must not divide what normalises itself
    value, gradient = made.method.engine.gradient(model.flat.clone(), samples)
    assert value == pytest.approx(loss.item(), rel=1e-5)
    expected = torch.cat([p.grad.reshape(-1) for p in plain.parameters()] + [torch.zeros(8)])
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_what_is_shared_is_averaged_and_charged():
    made = made_with("shared")
    assert made.method.workload.upload_bits == 16 * (VALUES["trained"] + VALUES["statistics"])
    uploads = [made.train(made.start(), device, 0).upload["model"][0].double() for device in (0, 1)]
    weights = made.samples[:2] / made.samples[:2].sum()
    state = made.advance(made.start(), [0, 1], 0)
    expected = (weights[0] * uploads[0] + weights[1] * uploads[1]).float()
    torch.testing.assert_close(state.server["model"], expected, rtol=1e-6, atol=1e-7)
    start = made.start().server["model"]
    split = made.method.model.split
    assert not torch.isclose(state.server["model"][split - 8 : split], start[split - 8 : split]).any()


@pytest.mark.parametrize("algorithm", ["fedavg", "pma", "tests.own_ditto:ditto"])
def test_personal_statistics_stay_with_their_device(algorithm):
    made = made_with("personal", algorithm=algorithm)
    sent = {"pma": 4 * 9 + 4 + 8}.get(algorithm, VALUES["trained"])
    assert made.method.workload.upload_bits == 16 * sent
    state = made.advance(made.start(), [0, 1], 0)
    held = [made.method.held(state, device)["buffers"] for device in (0, 1, 2)]
    assert not torch.isclose(held[0], held[1]).any()
    assert held[2].tolist() == [0.0] * 4 + [1.0] * 4  # has not trained
    assert made.evaluate(state).global_accuracy is None  # no two devices have one model
    again = made.advance(state, [0], 1)
    assert not torch.isclose(made.method.held(again, 0)["buffers"], held[0]).any()
    assert made.method.held(again, 1)["buffers"] is held[1]


def test_frozen_statistics_are_used_in_training_and_never_change():
    made = made_with("frozen", shared_layers=3)
    model, samples, plain = made.method.model, made.device_samples(1), plain_copy(made)
    assert made.method.workload.upload_bits == 16 * VALUES["trained"]
    plain[1].eval()
    train_plainly(plain, samples)
    trained = made.method.engine.train(model.flat.clone(), samples, np.random.default_rng(0), 5)
    expected = torch.cat([p.detach().reshape(-1) for p in plain.parameters()])
    torch.testing.assert_close(trained, expected, rtol=1e-4, atol=1e-5)
    assert model.module[1].running_var.tolist() == [1.0] * 4
    assert not model.coupled


@pytest.mark.parametrize("algorithm", ["pma", "fedavg", "local", "fedrep"])
@pytest.mark.parametrize("buffers", ["shared", "personal", "frozen"])
def test_every_device_is_tested_with_its_own_statistics(algorithm, buffers):
    made = made_with(buffers, algorithm)
    state = made.advance(made.advance(made.start(), [0, 1, 3], 0), [1, 2], 1)
    metrics = made.evaluate(state)
    plain, model = plain_copy(made).eval(), made.method.model
    test = made._evaluator.test
    for device, rows in enumerate(made._evaluator.rows):
        model.load(whole_model(made, state, device))
        plain.load_state_dict(model.module.state_dict())
        samples = test.rows(made._evaluator._order[rows])
        with torch.no_grad():
            scores = plain(samples.x)
        right = (scores.argmax(1) == samples.y).double().mean()
        assert metrics.device_accuracy[device] == pytest.approx(float(right))
        loss = nn.functional.cross_entropy(scores.double(), samples.y)
        assert metrics.device_loss[device] == pytest.approx(float(loss), rel=1e-4)


def test_sharing_all_layers_is_fedavg_and_none_is_local_to_the_bit():
    for layers, other in ((3, "fedavg"), (0, "local")):
        one, two = (
            made_with(algorithm="pma", shared_layers=layers),
            made_with(algorithm=other, shared_layers=layers),
        )
        states = [made.advance(made.start(), [0, 2], 0) for made in (one, two)]
        models = [whole_model(made, state, 2) for made, state in zip((one, two), states, strict=True)]
        assert torch.equal(*models)


def test_counters_begin_anew_and_replaced_buffers_are_found():
    made = task(USER + "odd_buffers", algorithm="fedavg", shared_layers=1)
    model, samples = made.method.model, made.device_samples(0)
    assert (model.statistics, model.parameters) == (
        3,
        784 * 10 + 10 + 3,
    )  # the code of positions is a constant
    for _ in range(2):  # the second time from the same weights gives the same
        trained = made.method.engine.train(made.start().server["model"], samples, np.random.default_rng(0), 4)
        assert int(model.module[0].count) == 4
        torch.testing.assert_close(trained[-3:], samples.x.mean() * torch.tensor([4.0, 4.0, 4.0]))
    assert torch.equal(model.module[0].position, torch.arange(784.0).view(1, 28, 28) / 784)


def test_eight_bits_are_refused_for_shared_statistics():
    settings = learning(NORMALISED, upload_bits_per_parameter=8, algorithm="fedavg")
    with pytest.raises(InputError, match=r"upload_bits_per_parameter = 8.*running variances"):
        Method(settings, (1, 28, 28), 10, 1)
    for free in ({"buffers": "personal"}, {"algorithm": "local"}):
        Method(settings.model_copy(update=free), (1, 28, 28), 10, 1)


def test_buffers_of_another_kind_than_float32_are_refused():
    with pytest.raises(InputError, match=r"buffer '0\.total' is torch.float64"):
        build_model(learning(USER + "double_statistics"), (1, 28, 28), 10, np.random.default_rng(0))
