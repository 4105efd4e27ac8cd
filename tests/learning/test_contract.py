"""The contract of algorithms: what a stranger may write, what is charged for it, and what is refused."""

import numpy as np
import pytest
import torch

from pmafl.devices import SimulatedDevices
from pmafl.errors import InputError
from pmafl.learning.algorithms import ALGORITHMS
from pmafl.learning.engine import Engine
from pmafl.learning.inputs import Samples
from pmafl.learning.model import build_model
from pmafl.learning.workload import workload
from pmafl.rounds import play, round_problem, start
from pmafl.settings import load
from pmafl.world import build_world, wireless_world
from tests.learning.synthetic import learning, task, whole_model

SMALL = {"model": "tests.learning.user_models:deep", "shared_layers": 2}
DITTO, SCAFFOLD = "tests.own_ditto:ditto", "tests.own_scaffold:scaffold"
USER = "tests.learning.user_algorithms:"
PLAIN = {"momentum": 0.0, "upload_bits_per_parameter": 32}


def rounds_of(made, rounds=4):
    state = made.start()
    for t in range(rounds):
        state = made.advance(state, range(4), t)
    return state


def world_of(tiny, rounds=3, **changes):
    """The tiny problem, with everybody in every round."""
    free = {"run.wireless": "none", "policy.name": "all", "run.rounds": rounds}
    return build_world(load("mnist", tiny | free | {f"learning.{k}": v for k, v in changes.items()}))


def bits_of(upload):
    return sum(8 * part.numel() * part.element_size() for payload in upload.values() for part in payload)


def test_ditto_keeps_a_personal_model_on_every_device():
    made = task(algorithm=DITTO, **SMALL)
    state = rounds_of(made)
    assert set(state.server) == {"model"}
    assert sorted(state.devices) == [0, 1, 2, 3]
    assert all(set(held) == {"personal"} for held in state.devices.values())
    shared = rounds_of(task(algorithm="fedavg", **SMALL))
    assert torch.equal(state.server["model"], shared.server["model"])
    before, after = made.evaluate(made.start()), made.evaluate(state)
    assert after.loss < before.loss / 2
    assert after.global_accuracy is None


def test_a_strong_pull_keeps_dittos_personal_models_near_the_shared_one():
    def distance(weight):
        made = task(algorithm=DITTO, options={"weight": weight}, momentum=0.0, **SMALL)
        state = rounds_of(made, 3)
        away = [whole_model(made, state, k) - state.server["model"] for k in range(4)]
        return float(torch.stack(away).norm())

    assert distance(10.0) < distance(0.0) / 2


def test_scaffolds_control_is_the_mean_of_its_devices_controls():
    made = task(algorithm=SCAFFOLD, **PLAIN, **SMALL)
    state = rounds_of(made)
    weights = torch.from_numpy(made.samples / made.samples.sum())
    mean = sum(
        weight * state.devices[k]["control"].double() for k, weight in zip(range(4), weights, strict=True)
    )
    assert state.server["control"].norm() > 0
    torch.testing.assert_close(state.server["control"].double(), mean, rtol=1e-4, atol=1e-6)
    assert made.evaluate(state).loss < made.evaluate(made.start()).loss


def test_one_model_for_all_has_a_global_accuracy_although_devices_hold_something():
    made = task(algorithm=SCAFFOLD, **PLAIN, **SMALL)
    metrics = made.evaluate(rounds_of(made, 2))
    assert metrics.global_accuracy == pytest.approx(metrics.accuracy, abs=0.2)


@pytest.mark.parametrize(("algorithm", "server"), [(DITTO, ["model"]), (SCAFFOLD, ["control", "model"])])
def test_an_algorithm_with_memory_runs_through_the_round_loop(tiny, algorithm, server):
    changes = PLAIN | {"algorithm": algorithm}
    world = world_of(tiny, **changes)
    played = list(play(world))
    state, record = played[-1]
    assert sorted(state.learning.server) == server
    assert sorted(state.learning.devices) == list(range(6))
    tensors = [*state.learning.server.values()]
    tensors += [value for held in state.learning.devices.values() for value in held.values()]
    assert all(value.shape == (world.method.model.parameters,) for value in tensors)
    assert record.loss < played[0][1].loss
    later = list(play(world_of(tiny, **changes), state=played[0][0]))
    assert all(
        torch.equal(later[-1][0].learning.server[name], state.learning.server[name]) for name in server
    )
    assert later[-1][1] == record


def test_a_device_that_reports_no_loss_has_none_in_the_record(tiny):
    (_, ditto), (_, scaffold) = (
        next(play(world_of(tiny, algorithm=algorithm, **PLAIN))) for algorithm in (DITTO, SCAFFOLD)
    )
    assert all(loss > 0 for loss in ditto.train_loss)
    assert scaffold.train_loss == [None] * 6


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_bits_are_charged_for_what_is_uploaded(bits):
    made = {
        name: task(algorithm=name, upload_bits_per_parameter=bits, **SMALL)
        for name in ("fedavg", DITTO, SCAFFOLD)
    }
    charged = {name: one.method.workload.upload_bits for name, one in made.items()}
    assert charged[SCAFFOLD] == 2 * charged["fedavg"]
    assert charged[DITTO] == charged["fedavg"]
    assert made[DITTO].method.workload.charged_iterations == 2 * learning().iterations
    for name, one in made.items():
        assert bits_of(one.train(one.start(), 1, 0).upload) == charged[name]
        assert workload(learning(algorithm=name, upload_bits_per_parameter=bits, **SMALL)) == (
            one.method.workload
        )


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_devices_that_upload_less_are_charged_less(bits):
    options = {"sends_high": [True, False, True, False]}
    made = task(algorithm=USER + "parts", options=options, upload_bits_per_parameter=bits, **SMALL)
    uploads = [made.train(made.start(), k, 0).upload for k in range(4)]
    assert [sorted(upload) for upload in uploads] == [["high", "low"], ["low"]] * 2
    assert [bits_of(upload) for upload in uploads] == made.method.workload.upload_bits.tolist()
    forms = [made.method.form(k) for k in range(4)]
    assert [bits_of(form) for form in forms] == made.method.workload.upload_bits.tolist()


def test_each_part_is_the_mean_over_those_who_sent_it():
    options = {"sends_high": [True, False, True, False]}
    made = task(algorithm=USER + "parts", options=options, upload_bits_per_parameter=32, **SMALL)
    everyone = task(algorithm="fedavg", upload_bits_per_parameter=32, **SMALL)
    split = made.method.model.split
    mixed, all_send, some = (
        one.advance(one.start(), devices, 0).server
        for one, devices in ((made, range(4)), (everyone, range(4)), (everyone, [0, 2]))
    )
    assert torch.equal(mixed["low"], all_send["model"][:split])
    assert torch.equal(mixed["high"], some["model"][split:])


def test_the_bits_of_each_device_reach_the_round_problem(tiny):
    options = {"sends_high": [True, False, False, True, True, False]}
    own = {"learning.algorithm": USER + "parts", "learning.options": options, "run.rounds": 2}
    settings = load("mnist", tiny | own | {"policy.name": "uniform", "policy.options.count": 2})
    world = build_world(settings)
    model, per_value = world.method.model, settings.learning.upload_bits_per_parameter
    expected = [per_value * (model.parameters if high else model.split) for high in options["sends_high"]]
    for one in (world, wireless_world(settings)):
        problem = round_problem(one, start(one), SimulatedDevices(one).report(0))
        assert problem.upload_bits.tolist() == expected
    assert all(len(record.scheduled) == 2 for _, record in play(world))


def test_a_device_sees_only_what_it_downloads():
    made = task(algorithm=USER + "receives_little", upload_bits_per_parameter=32, **SMALL)
    state = rounds_of(made, 2)
    assert set(state.server) == {"model", "secret"}
    assert all(held["seen"].item() == 2 for held in state.devices.values())
    torch.testing.assert_close(state.server["model"], made.start().server["model"] + 2)


def test_what_an_algorithm_starts_from_is_not_overwritten_by_training():
    made = task(algorithm=USER + "parts", options={"sends_high": [True] * 4}, **SMALL)
    before = whole_model(made, made.start(), 0).clone()
    made.advance(made.start(), range(4), 0)
    assert torch.equal(whole_model(made, made.start(), 0), before)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("other_name", r"device 0: uploads {'weights': \d+}; it said {'model': \d+}"),
        ("too_short", r"device 0: uploads {'model': \d+}; it said {'model': \d+}"),
        ("nothing_sent", r"device 0: uploads {}; it said"),
        ("more_names", r"uploads {'model': \d+, 'more': \d+}; it said"),
        ("no_pair", "local returned a dict; it must return two mappings"),
        ("three", "local returned a tuple of 3; it must return two mappings"),
        ("no_mapping", r"the upload is a tensor .* with shape \(\d+,\); it must be a mapping"),
        ("a_list", "the upload has 'model': a list; it must be a flat tensor"),
        ("a_matrix", r"the upload has 'model': a tensor .* \(\d+, 1\); it must be a flat tensor"),
        ("double", "a tensor of torch.float64 .* it must be of torch.float32"),
        ("new_memory", "what it holds is of sizes {'step': 1}; it must be {}"),
        ("no_memory", "what it holds is a NoneType; it must be a mapping"),
        ("fails", "device 0: raised AttributeError: .*no_such_thing.* \\(user_algorithms.py:"),
        ("in_place", "device 0: changed 'model' of the server in place; it must return new tensors"),
        ("in_a_part", "device 0: changed 'model' of the server in place; it must return new tensors"),
        ("start_of_one", "start returned a dict; it must return two mappings"),
        ("short_personal", r"the personal model is of sizes .* it must be {'weights': \d+}"),
        ("forgets", r"what aggregate returned is of sizes {}; it must be {'model': \d+}"),
        ("aggregates_nothing", "what aggregate returned is a NoneType"),
        ("unknown_download", "downloads 'secret', which the server does not hold; it holds model"),
        ("unknown_upload", "downloads 'delta', which the server does not hold; it holds model"),
        ("other_size", r"'model' is of size \d+ or \d+; what has one name has one size"),
        ("sizes_by_device", r"'model' is of size \d+ or \d+; what has one name has one size"),
        ("other_lengths", "gives upload sizes of 3 and of 4 devices"),
        ("negative", r"the size of an upload is -\d+; it must be 0 or more"),
        ("half_a_value", "raised TypeError: 'float' object cannot be interpreted as an integer"),
        ("fails_at_once", "raised ZeroDivisionError: no rate at all"),
    ],
)
def test_an_algorithm_that_is_wrong_is_named_in_one_line(name, line):
    def run():
        made = task(algorithm=USER + name, **SMALL)
        made.evaluate(made.advance(made.start(), range(2), 0))

    with pytest.raises(InputError, match=line) as error:
        run()
    assert str(error.value).startswith(f"algorithm '{USER}{name}'")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("algorithm", "options", "line"),
    [
        ("fedavg", {"rate": 1.0}, "'fedavg' was given the options rate; it has none"),
        ("fedprox", {"weight": 1.0}, "'fedprox' was given the options weight; it has proximal_weight"),
        ("fedprox", {"proximal_weight": "much"}, "option proximal_weight = 'much': must be a number"),
        ("fedprox", {"proximal_weight": -1.0}, "proximal_weight = -1.0: must be 0 or more"),
        ("fedprox", {"proximal_weight": float("nan")}, "proximal_weight = nan: must be 0 or more"),
        ("fedrep", {"work": "half"}, "option work = 'half': must be 'double' or 'equal'"),
        ("fedrep", {"order": "both"}, "option order = 'both': must be 'head-first' or 'extractor-first'"),
        ("ditto", {"weight": -0.5}, "learning.options.weight = -0.5: must be 0 or more"),
        ("ditto", {"personal_iterations": 0}, "personal_iterations = 0: must be 1 or more"),
        ("apfl", {"mixing": 1.5}, "learning.options.mixing = 1.5: must be 0 to 1"),
        ("pfedme", {"steps": 0}, "learning.options.steps = 0: must be 1 or more"),
        ("fedadam", {"adaptivity": 0.0}, "learning.options.adaptivity = 0.0: must be more than 0"),
        ("fedavgm", {"momentum": float("nan")}, "learning.options.momentum = nan: must be 0 to 1"),
        ("fine-tune", {"tune": "some"}, "option tune = 'some': must be 'all', 'head' or 'extractor'"),
        ("fedbabu", {"tuning_iterations": -1}, "tuning_iterations = -1: must be 0 or more"),
        ("scaffold", {"control_weight": float("inf")}, "control_weight = inf: must be 0 or more"),
        ("pma", {"learning": 3}, "was given the options learning; it has none"),
        (DITTO, {"weight": [1]}, r"option weight = \(1,\): must be a number"),
        (DITTO, {"wait": 0.1}, "was given the options wait; it has weight"),
        (USER + "parts", {}, "needs the options sends_high"),
        ("builtins:dict", {}, "must be a function"),
        ("math:pi", {}, "is a float; it must be a function"),
    ],
)
def test_options_that_an_algorithm_does_not_have_are_refused_in_one_line(algorithm, options, line):
    with pytest.raises(InputError, match=line) as error:
        workload(learning(algorithm=algorithm, options=options))
    assert "\n" not in str(error.value)


def engine_of(model, **changes):
    settings = learning(model, **changes)
    shape = (3, 32, 32) if model == "cnn" else (1, 28, 28)
    engine = Engine(build_model(settings, shape, 10, np.random.default_rng(1)), settings)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(70, *shape, generator=generator)
    return engine, Samples(x, torch.randint(10, (70,), generator=generator))


NETWORKS = ["tests.learning.user_models:deep", "tests.learning.user_models:nested"]


@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
def test_the_first_loss_of_full_batches_is_that_of_the_weights_received(model, part):
    engine, samples = engine_of(model, shared_layers=1)
    weights = engine.model.flat.clone()
    expected, _ = engine.gradient(weights, samples)
    assert engine.first_loss is None
    trained = engine.train(weights, samples, np.random.default_rng(0), 4, part)
    assert engine.first_loss == pytest.approx(expected, rel=1e-5)
    engine.train(trained, samples, np.random.default_rng(0), 4, part)
    assert engine.first_loss == pytest.approx(expected, rel=1e-5)
    assert engine.gradient(trained, samples)[0] < expected


@pytest.mark.parametrize("model", NETWORKS)
def test_the_first_loss_of_mini_batches_is_the_mean_over_the_first_pass(model):
    """It is that of the weights received as far as they did not move in that pass."""
    changes = {"shared_layers": 1, "batch_size": 32, "momentum": 0.0}
    for rate, moves in ((1e-20, False), (0.05, True)):
        engine, samples = engine_of(model, **changes, extractor_rate=rate, predictor_rate=rate)
        weights = engine.model.flat.clone()
        received, _ = engine.gradient(weights, samples)
        engine.train(weights, samples, np.random.default_rng(7), 2)
        if not moves:
            assert engine.first_loss == pytest.approx(received, rel=1e-5)
        mean = 0.0
        for rows in torch.from_numpy(np.random.default_rng(7).permutation(70)).split(32):
            loss, gradient = engine.gradient(weights, Samples(samples.x[rows], samples.y[rows]))
            mean += loss * len(rows) / 70
            weights = weights - rate * gradient
        assert engine.first_loss == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize("algorithm", [*ALGORITHMS.names(), DITTO])
def test_devices_report_the_loss_of_what_they_received(algorithm):
    made = task(algorithm=algorithm, **SMALL)
    state = rounds_of(made, 1)
    for device in (3, 0):
        trained = made.train(state, device, 1)
        at = whole_model(made, state, device)
        if algorithm in (DITTO, "ditto", "apfl", "pfedme"):  # the shared model comes first
            at = state.server["model"]
        expected, _ = made.method.engine.gradient(at, made.device_samples(device))
        assert trained.loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("batch_size", [0, 16])
@pytest.mark.parametrize("model", NETWORKS)
def test_a_pull_towards_another_centre_is_that_of_its_gradient(model, batch_size):
    """Also where full batches are trained by coefficients of the samples."""
    changes = {"shared_layers": 1, "batch_size": batch_size, "momentum": 0.0}
    engine, samples = engine_of(model, **changes, extractor_rate=0.05, predictor_rate=0.05)
    weights = engine.model.flat.clone()
    centre = weights + 0.1 * torch.randn(len(weights), generator=torch.Generator().manual_seed(4))
    trained = engine.train(weights, samples, np.random.default_rng(7), 3, proximal_weight=0.5, centre=centre)
    expected, rng = weights.clone(), np.random.default_rng(7)
    for _ in range(3):
        order = torch.from_numpy(rng.permutation(70)) if batch_size else torch.arange(70)
        for rows in order.split(batch_size or 70):
            _, gradient = engine.gradient(expected, Samples(samples.x[rows], samples.y[rows]))
            expected = expected - 0.05 * (gradient + 0.5 * (expected - centre))
    assert float((trained - expected).norm() / (expected - weights).norm()) < 1e-4
