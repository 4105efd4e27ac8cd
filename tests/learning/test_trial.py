import numpy as np
import pytest
import torch
from torch import nn

from pmafl.data.partition import Partition
from pmafl.errors import InputError
from pmafl.learning.engine import Engine
from pmafl.learning.model import build_model
from pmafl.learning.task import LearningTask
from pmafl.learning.trial import different
from tests.learning.synthetic import dataset, learning, partition, task

USER = "tests.learning.user_models:"


def build(name, **changes):
    settings = learning(USER + name, **{"shared_layers": 1} | changes)
    return build_model(settings, (1, 28, 28), 10, np.random.default_rng(0))


def own_task(name, **changes):
    return task(USER + name, **{"shared_layers": 1} | changes)


def trained(made, rounds=2):
    """What two rounds of training give, and their test."""
    state = made.start()
    for number in range(rounds):
        state = made.advance(state, [0, 1, 2], number)
    torch.randn(3)  # whoever else draws from torch's global state
    held = [state.server, *(made.method.held(state, device) for device in range(3))]
    return torch.cat([part for one in held for part in one.values()]), made.evaluate(state).device_loss


def same(one, other):
    return torch.equal(one[0], other[0]) and np.array_equal(one[1], other[1])


@pytest.mark.parametrize("name", ["functional_dropout", "lstm_with_dropout", "attention"])
def test_randomness_of_any_kind_follows_the_seed(name):
    runs = [trained(own_task(name, algorithm="fedavg")) for _ in range(2)]
    assert same(*runs)
    assert build(name).stochastic


def test_what_draws_nothing_is_not_called_random():
    assert not build("attention", model_options={"dropout": 0.0}).stochastic
    assert not build("branches").stochastic


def test_a_random_member_below_dense_layers_is_run_in_every_step():
    """Not once for all steps, as what is steady below a head that is trained alone."""
    made = build("random_stem", shared_layers=1)
    assert made.random == [False, True, False, False]
    assert len(made.extractor) == 3
    engine = Engine(made, learning(USER + "random_stem", shared_layers=1))
    begun = engine._passes.begin(own_task("random_stem").device_samples(0), "predictor")
    assert begun.x.shape[1:] == (2, 6, 6)  # of the convolution, before the noise


def test_tuning_follows_the_seed_too():
    made = [own_task("with_dropout", algorithm="per-fedavg") for _ in range(2)]
    assert same(*map(trained, made))


@pytest.mark.parametrize(
    ("name", "options", "changes"),
    [
        ("shifts", {"where": "input"}, {"algorithm": "fedavg"}),
        ("shifts", {"where": "input"}, {"algorithm": "fedrep"}),
        ("shifts", {"where": "head"}, {"algorithm": "pma"}),
        ("shifts", {"where": "head"}, {"algorithm": "fedrep"}),
        ("shifts_whole", {}, {"algorithm": "fedavg"}),
        ("dropout_in_place", {}, {"algorithm": "fedrep", "shared_layers": 2}),
    ],
)
def test_a_network_that_changes_its_inputs_learns_as_one_that_copies_them(name, options, changes):
    runs = [
        trained(own_task(name, **changes, model_options={**options, **safe})) for safe in ({}, {"safe": True})
    ]
    assert same(*runs)


def test_features_are_the_same_for_every_head_that_sees_them():
    made = own_task("shifts", algorithm="pma", model_options={"where": "head"})
    model = made.method.model
    with torch.no_grad():
        test = made._evaluator.begin(model.flat[: model.split].clone())
        head = model.flat[model.split :].clone()
        assert test.score(0, head).tolist() == test.score(0, head).tolist()


@pytest.mark.parametrize("name", ["functional_batch_norm", "functional_batch_norm_at_zero"])
def test_samples_that_see_each_other_stay_in_one_batch(name):
    made = own_task(name, algorithm="fedavg")
    model, samples = made.method.model, made.device_samples(0)
    assert model.coupled
    model.chunk = 3
    model.module.train()
    loss = nn.functional.cross_entropy(model.module(samples.x), samples.y)
    wanted = torch.autograd.grad(loss, list(model.module.parameters()))
    loss = loss.detach()
    found_loss, found = made.method.engine.gradient(model.flat.clone(), samples)
    assert found_loss == pytest.approx(float(loss), rel=1e-5)
    torch.testing.assert_close(found, torch.cat([part.reshape(-1) for part in wanted]))


@pytest.mark.parametrize("name", ["branches", "with_dropout", "nested", "functional_dropout", "odd_buffers"])
def test_samples_on_their_own_are_not_called_coupled(name):
    made = build(name)
    assert made.coupled == (name == "odd_buffers")  # which carries a buffer
    assert made.smallest_batch == 1


def test_token_ids_are_tried_with_samples_that_differ():
    ids = different((6,), 3, vocabulary=40)
    assert ids.max() < 40
    assert len({tuple(row) for row in ids.tolist()}) == 3


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no_running_statistics", "in evaluation mode the other samples of a batch change a sample's scores"),
        ("noise_in_tests", "draws random numbers in evaluation mode"),
        ("corrected_mean", "buffer '0.count' changes in training and decides scores"),
        ("two_in_training", r"in training mode gives a tuple for 2 samples; must give one tensor, \(2, 10\)"),
        ("detached", "in training mode gives scores that depend on no parameter that is trained"),
    ],
)
def test_what_no_run_can_use_is_refused_in_one_line(name, line):
    with pytest.raises(InputError, match=line) as error:
        build(name)
    assert str(error.value).startswith(f"learning.model = '{USER}{name}': ")
    assert "\n" not in str(error.value)


def test_norms_of_a_single_unit_are_found_too():
    """Of two samples they would give plus and minus one, whatever the second is."""
    settings = learning(USER + "narrow_without_statistics", shared_layers=1)
    for seed in range(6):
        with pytest.raises(InputError, match="in evaluation mode the other samples"):
            build_model(settings, (1, 28, 28), 10, np.random.default_rng(seed))


def test_frozen_buffers_need_no_counter():
    assert build("corrected_mean", buffers="frozen").statistics == 0


@pytest.mark.parametrize("name", ["last_seen", "odd_buffers"])
def test_devices_are_tested_with_what_they_carry_alone(name):
    """Whoever trained last leaves no counter behind."""
    made = own_task(name, algorithm="fedavg")
    made.evaluate(made.advance(made.start(), [0, 1], 0))
    assert [float(value) for value in made.method.model.module.buffers() if not value.dim()] == [0.0]


def test_a_parameter_without_effect_has_no_gradient():
    made = own_task("unused_part", algorithm="fedrep", shared=["spare.*"])
    engine, model, samples = made.method.engine, made.method.model, made.device_samples(0)
    start = model.flat.clone()
    for part in ("all", "extractor"):
        after = engine.train(start, samples, np.random.default_rng(0), 2, part)
        assert torch.equal(after[: model.split], start[: model.split])


def test_a_device_with_one_sample_is_named_where_a_batch_needs_two():
    data = dataset()
    parts = partition(data)
    single = Partition([*parts.train[:2], parts.train[2][:1], parts.train[3]], parts.test)
    line = r"device 2 has 1 training sample, but learning.model = '.*' normalises .* needs at least 2"
    with pytest.raises(InputError, match=line):
        LearningTask(learning(USER + "normalised_dense", shared_layers=1), data, single, 1)
    for fine in ("normalised", "linear"):  # images have more than one value per channel
        LearningTask(learning(USER + fine, shared_layers=1), data, single, 1)
    LearningTask(learning(USER + "normalised_dense", shared_layers=1, buffers="frozen"), data, single, 1)


def test_batches_of_one_are_refused_where_a_batch_needs_two():
    with pytest.raises(InputError, match=r"learning.batch_size = 1: must be 0 or at least 2, for"):
        own_task("normalised_dense", batch_size=1)
    own_task("normalised_dense", batch_size=2)
    own_task("normalised", batch_size=1)


def test_a_trial_leaves_no_trace():
    before = torch.get_rng_state()
    made = build("functional_batch_norm_at_zero")
    assert not made.module.head.weight.any()
    statistics = build("normalised", shared_layers=1).module[1]
    assert statistics.running_mean.tolist() == [0.0] * 4
    assert int(statistics.num_batches_tracked) == 0
    assert torch.equal(before, torch.get_rng_state())
