"""What one algorithm becomes at the edge of its parameters is another, to the bit on the same split."""

from types import SimpleNamespace

import pytest
import torch

from pmafl.errors import InputError
from pmafl.learning.algorithms import ALGORITHMS, find_algorithm
from pmafl.learning.quantise import decode
from pmafl.streams import stream
from tests.learning.synthetic import learning, task, whole_model
from tests.learning.user_models import one_step
from tests.rounding import KINKS


def models_after(rounds=3, **changes):
    """Every device's whole model after some rounds with changing sets of devices."""
    made = task(**changes)
    state = made.start()
    for t in range(rounds):
        state = made.advance(state, [t % 4, (t + 1) % 4], t)
    return [whole_model(made, state, k) for k in range(4)]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("batch_size", [0, 16])
def test_fedprox_without_its_term_is_fedavg(batch_size):
    fedprox = models_after(algorithm="fedprox", options={"proximal_weight": 0.0}, batch_size=batch_size)
    assert same(fedprox, models_after(algorithm="fedavg", batch_size=batch_size))
    held = models_after(algorithm="fedprox", options={"proximal_weight": 0.5}, batch_size=batch_size)
    assert not same(fedprox, held)


@pytest.mark.parametrize(("model", "layers"), [("mlp", 4), ("cnn", 5)])
@pytest.mark.parametrize("batch_size", [0, 16])
def test_pma_sharing_all_layers_is_fedavg(model, layers, batch_size):
    rounds = 3 if model == "mlp" else 2
    changes = {"model": model, "shared_layers": layers, "batch_size": batch_size}
    pma = models_after(rounds, algorithm="pma", **changes)
    assert same(pma, models_after(rounds, algorithm="fedavg", **changes))


@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("batch_size", [0, 16])
def test_pma_sharing_nothing_is_local_training(model, batch_size):
    rounds = 3 if model == "mlp" else 2
    changes = {"model": model, "shared_layers": 0, "batch_size": batch_size}
    pma = models_after(rounds, algorithm="pma", **changes)
    assert same(pma, models_after(rounds, algorithm="local", **changes))


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_where_a_model_is_split_is_nothing_to_one_that_shares_all_of_it(model):
    """But for rounding, as other layers run together; uploads of 16 bits would make more of it."""
    changes = {"model": model, "algorithm": "fedavg", "batch_size": 16, "upload_bits_per_parameter": 32}
    before = models_after(0, **changes)[0]
    one, other = (models_after(2, shared_layers=layers, **changes)[0] for layers in (1, 3))
    assert (one - other).norm() < KINKS * (one - before).norm()


@pytest.mark.parametrize("algorithm", ALGORITHMS.names())
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_same_seed_gives_the_same_bits(algorithm, precision):
    changes = {"algorithm": algorithm, "batch_size": 16, "precision": precision}
    first = models_after(**changes)
    assert same(first, models_after(**changes))
    assert not same(first, models_after(seed=4, **changes))


def test_dropout_follows_the_seed_too():
    changes = {"model": "tests.learning.user_models:with_dropout", "shared_layers": 1}
    first = models_after(**changes)
    torch.rand(1)
    assert same(first, models_after(**changes))


class Recorder:
    """An engine that notes what is trained, and how long."""

    model = SimpleNamespace(split=2)

    def __init__(self):
        self.calls = []

    def train(self, weights, samples, rng, iterations, part):
        self.calls.append((part, iterations))
        return weights


def fedrep_phases(**options):
    engine, algorithm = Recorder(), find_algorithm(learning(algorithm="fedrep", options=options))
    algorithm.local(engine, {"extractor": torch.zeros(2)}, {"head": torch.zeros(1)}, None, None)
    return engine.calls


def test_fedrep_divides_equal_work_with_the_larger_half_for_the_head():
    assert fedrep_phases(work="equal") == [("predictor", 3), ("extractor", 2)]
    assert fedrep_phases(work="double") == [("predictor", 5), ("extractor", 5)]
    with pytest.raises(InputError, match=">= 2"):
        find_algorithm(learning(algorithm="fedrep", options={"work": "equal"}, iterations=1))


def test_fedrep_trains_in_either_order():
    assert fedrep_phases(order="extractor-first") == [("extractor", 5), ("predictor", 5)]
    assert fedrep_phases(order="extractor-first", work="equal") == [("extractor", 2), ("predictor", 3)]
    head_first, extractor_first = (
        models_after(algorithm="fedrep", options={"order": order})
        for order in ("head-first", "extractor-first")
    )
    assert same(head_first, models_after(algorithm="fedrep"))
    assert not same(head_first, extractor_first)


@pytest.mark.parametrize("order", ["head-first", "extractor-first"])
@pytest.mark.parametrize("batch_size", [0, 16])
def test_fedrep_trains_what_comes_second_on_what_came_first(order, batch_size):
    """Against its two phases in turn: the first part's weights are those of training it alone."""
    made = task(algorithm="fedrep", options={"order": order}, batch_size=batch_size)
    engine, split = made.method.engine, made.method.model.split
    start, samples = made.method.model.flat.clone(), made.device_samples(0)
    phases = ("predictor", "extractor") if order == "head-first" else ("extractor", "predictor")
    expected, rng = start, stream(3, "batches", 0, 0)
    for part in phases:
        expected = engine.train(expected, samples, rng, 5, part=part)
    alone = engine.train(start, samples, stream(3, "batches", 0, 0), 5, part=phases[0])
    trained = made.train(made.start(), 0, 0)
    upload, head = decode(trained.upload["extractor"]), trained.memory["head"]
    assert torch.equal(head, expected[split:])
    assert torch.equal(upload, expected[:split].half().float())
    first = (head, alone[split:]) if order == "head-first" else (upload, alone[:split].half().float())
    assert torch.equal(*first)


def test_a_users_algorithm_runs_by_path_and_by_name(monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS._entries))
    ALGORITHMS.register("one-step", one_step)
    by_path = models_after(algorithm="tests.learning.user_models:one_step")
    assert same(by_path, models_after(algorithm="one-step"))
    assert same(by_path, models_after(algorithm="pma", iterations=1))
    with pytest.raises(InputError, match="called 'one-step' already"):
        ALGORITHMS.register("one-step", one_step)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("fedsgd", "did you mean 'fedavg'"),
        ("scaffold", "choose pma, fedavg, fedprox, fedrep, local or package.module:name"),
        ("tests.learning.user_models:missing", "has no 'missing'"),
        ("builtins:repr", "must return an Algorithm, but returned str"),
    ],
)
def test_an_unknown_algorithm_is_refused_in_one_line(name, line):
    with pytest.raises(InputError, match=line):
        find_algorithm(learning(algorithm=name))
