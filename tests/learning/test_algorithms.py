"""What one algorithm becomes at the edge of its parameters is another, to the bit on the same split."""

from types import SimpleNamespace

import pytest
import torch

from pmafl.errors import InputError
from pmafl.learning.algorithms import ALGORITHMS, find_algorithm
from pmafl.learning.quantise import decode
from pmafl.learning.workload import workload
from pmafl.streams import stream
from tests.learning.synthetic import learning, task, whole_model
from tests.learning.user_models import one_step
from tests.rounding import KINKS

SMALL = {"model": "tests.learning.user_models:deep", "shared_layers": 2}


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
    changes = {"algorithm": algorithm, "batch_size": 16, "precision": precision, **SMALL}
    changes |= {"momentum": 0.0} if algorithm == "feddyn" else {}  # its steps add up to too much here
    first = models_after(**changes)
    assert all(weights.isfinite().all() for weights in first)
    assert same(first, models_after(**changes))
    assert not same(first, models_after(seed=4, **changes))


def distance(first, second):
    """Of what training changed."""
    start = models_after(0, **SMALL)[0]
    away = torch.stack([a - b for a, b in zip(first, second, strict=True)]).norm()
    return float(away / torch.stack([a - start for a in first]).norm())


EDGES = [
    ("fedper", {}, "pma", {}),
    ("scaffold", {"control_weight": 0.0}, "fedavg", {}),
    ("feddyn", {"weight": 0.0}, "fedavg", {}),
    ("fedavgm", {"momentum": 0.0, "rate": 1.0}, "fedavg", {}),
    ("fine-tune", {"tuning_iterations": 0}, "fedavg", {}),
    ("per-fedavg", {"rate": 0.0}, "fedavg", {}),
    ("ditto", {"weight": 0.0}, "local", {}),
    ("lg-fedavg", {}, "fedavg", {"shared_layers": 0}),
    ("lg-fedavg", {}, "local", {"shared_layers": 3}),
]


@pytest.mark.parametrize("batch_size", [0, 16])
@pytest.mark.parametrize(
    ("algorithm", "options", "other", "changes"), EDGES, ids=[f"{edge[0]}-{edge[2]}" for edge in EDGES]
)
def test_at_its_edge_an_algorithm_is_another_to_the_bit(algorithm, options, other, changes, batch_size):
    changes = SMALL | {"batch_size": batch_size} | changes
    found = models_after(algorithm=algorithm, options=options, **changes)
    assert same(found, models_after(algorithm=other, **changes))


@pytest.mark.parametrize("batch_size", [0, 16])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    ("algorithm", "options", "other"),
    [
        ("apfl", {"mixing": 0.0}, "fedavg"),
        ("apfl", {"mixing": 1.0}, "local"),
        ("fedadam", {"momentum": 0.0, "second_momentum": 1.0, "rate": 0.5, "adaptivity": 0.25}, "fedavg"),
    ],
    ids=["apfl-fedavg", "apfl-local", "fedadam-fedavg"],
)
def test_at_its_edge_an_algorithm_is_another(algorithm, options, other, momentum, batch_size):
    """But for rounding, where sums are made in another order; the network has no kinks to divide the two."""
    changes = SMALL | {
        "model": "tests.learning.user_models:smooth",
        "batch_size": batch_size,
        "momentum": momentum,
        "upload_bits_per_parameter": 32,
        "extractor_rate": 0.01,
        "predictor_rate": 0.01,
    }
    found = models_after(2, algorithm=algorithm, options=options, **changes)
    expected = models_after(2, algorithm=other, **changes)
    assert max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)) < 1e-6


@pytest.mark.parametrize("batch_size", [0, 16])
def test_before_there_are_controls_scaffold_is_fedavg(batch_size):
    """In the first round all controls are zero."""
    changes = SMALL | {"batch_size": batch_size}
    scaffold, fedavg = (models_after(1, algorithm=name, **changes) for name in ("scaffold", "fedavg"))
    if batch_size:
        assert same(scaffold, fedavg)
    assert distance(scaffold, fedavg) < KINKS
    changes["batch_size"] = 16
    assert not same(*(models_after(2, algorithm=name, **changes) for name in ("scaffold", "fedavg")))


def test_one_inner_step_all_the_way_makes_pfedmes_shared_model_fedavgs():
    changes = SMALL | {"momentum": 0.0, "batch_size": 0, "upload_bits_per_parameter": 32}
    options = {"steps": 1, "weight": 10.0, "rate": 0.1}
    servers = []
    for name, given in (("pfedme", options), ("fedavg", {})):
        made = task(algorithm=name, options=given, **changes)
        state = made.advance(made.advance(made.start(), [0, 1], 0), [1, 2], 1)
        servers.append([state.server["model"]])
    assert distance(*servers) < KINKS


def test_beside_its_personal_models_ditto_has_fedavgs():
    """And a weight of 0 makes those local training, which sees the same batches."""
    made = task(algorithm="ditto", options={"weight": 0.0}, batch_size=16, **SMALL)
    state = made.start()
    for t in range(3):
        state = made.advance(state, [t % 4, (t + 1) % 4], t)
    assert same([state.server["model"]] * 4, models_after(algorithm="fedavg", batch_size=16, **SMALL))


@pytest.mark.parametrize("tune", ["all", "head", "extractor"])
def test_fedbabu_trains_no_head_but_tunes_it_for_a_test(tune):
    made = task(algorithm="fedbabu", options={"tune": tune}, **SMALL)
    split, start = made.method.model.split, made.start()
    state = made.advance(made.advance(start, [0, 1, 2], 0), [1, 2], 1)
    head = start_head = whole_model(made, start, 0)[split:]
    for k in range(4):
        head = whole_model(made, state, k)[split:]
        assert torch.equal(head, start_head)
        tested, shared = made.tested(state, k), state.server["extractor"]
        assert torch.equal(tested[split:], head) == (tune == "extractor")
        assert torch.equal(tested[:split], shared) == (tune == "head")
    assert not torch.equal(state.server["extractor"], start.server["extractor"])


@pytest.mark.parametrize("algorithm", ["fine-tune", "fedbabu", "per-fedavg"])
@pytest.mark.parametrize("batch_size", [0, 16])
def test_tuning_is_done_for_every_device_and_changes_no_state(algorithm, batch_size):
    made = task(algorithm=algorithm, batch_size=batch_size, **SMALL)
    state = made.advance(made.start(), [0, 2], 0)
    before = {name: values.clone() for name, values in state.server.items()}
    metrics = made.evaluate(state)
    fresh = task(algorithm=algorithm, batch_size=batch_size, **SMALL)
    for k in range(4):
        weights = fresh.tested(state, k)
        assert torch.equal(weights, made.tested(state, k))
        with torch.no_grad():
            test = fresh._evaluator.begin(weights[:0])
            (_, loss), (_, untuned) = (test.score(k, w) for w in (weights, whole_model(fresh, state, k)))
        assert loss == pytest.approx(metrics.device_loss[k], rel=1e-6)
        assert loss < untuned
    assert all(torch.equal(state.server[name], values) for name, values in before.items())
    assert metrics.global_accuracy is None


@pytest.mark.parametrize("aggregation", ["mean", "median"])
def test_an_aggregate_is_told_the_share_of_devices_that_uploaded(aggregation):
    """Weighted by samples where the uploads are, each device once where they are not."""
    name = "tests.learning.user_algorithms:counts_uploads"
    made = task(algorithm=name, aggregation=aggregation, **SMALL)
    some = made.advance(made.start(), [1, 3], 0)
    everyone = made.advance(some, range(4), 1)
    part = made.samples[[1, 3]].sum() / made.samples.sum() if aggregation == "mean" else 0.5
    assert float(some.server["share"]) == pytest.approx(part, rel=1e-6)
    assert float(everyone.server["share"]) == 1.0


def test_fedbn_keeps_normalisation_and_shares_the_rest():
    made = task(
        algorithm="fedbn", model="tests.learning.user_models:normalised", upload_bits_per_parameter=32
    )
    model = made.method.model
    # 4 weights, biases, means and variances of BatchNorm
    assert model.parameters - model.split == 16
    state = made.advance(made.start(), [0, 1], 0)
    one, other, absent = (whole_model(made, state, k) for k in (0, 1, 2))
    assert torch.equal(one[: model.split], other[: model.split])
    assert torch.equal(one[: model.split], absent[: model.split])
    assert not torch.equal(one[model.split :], other[model.split :])
    assert torch.equal(absent[model.split :], torch.tensor([1.0, 0.0, 0.0, 1.0]).repeat_interleave(4))
    assert made.method.workload.upload_bits == 32 * model.split
    assert same(models_after(algorithm="fedbn", **SMALL), models_after(algorithm="fedavg", **SMALL))
    assert workload(learning(algorithm="fedbn")) == workload(learning(algorithm="fedavg"))


@pytest.mark.parametrize("algorithm", ALGORITHMS.names())
@pytest.mark.parametrize("buffers", ["shared", "personal"])
def test_running_statistics_follow_the_samples_whatever_is_done_to_weights(algorithm, buffers):
    """They are averaged, never extrapolated: a variance below 0 would end all."""
    made = task(
        algorithm=algorithm,
        model="tests.learning.user_models:normalised",
        shared_layers=2,
        buffers=buffers,
        upload_bits_per_parameter=32,
        iterations=2,
        batch_size=16,
    )
    state, module = made.start(), made.method.model.module
    norm = next(member for member in module if hasattr(member, "running_var"))
    for t in range(3):
        state = made.advance(state, [0, 1], t)
    tested = made.tested(state, 0)
    assert tested.isfinite().all()
    made.method.model.load(tested)
    assert (norm.running_var > 0).all()
    assert ((norm.running_var - 1).abs() > 0.05).any()
    assert norm.running_mean.abs().max() > 0.01


def test_apfl_moves_its_mixing_by_the_slope_and_within_its_range():
    def mixings(rate):
        made = task(algorithm="apfl", options={"mixing": 0.5, "mixing_rate": rate}, **SMALL)
        state = made.start()
        for t in range(3):
            state = made.advance(state, range(3), t)
        return [float(held["mixing"]) for held in state.devices.values()]

    assert mixings(0.0) == [0.5] * 3
    assert all(0 < value < 1 and value != 0.5 for value in mixings(0.01))
    assert set(mixings(1e6)) <= {0.0, 1.0}


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
        ("scafold", "did you mean 'scaffold'"),
        ("averaging", "choose pma, fedavg, .*fedadam or package.module:name"),
        ("tests.learning.user_models:missing", "has no 'missing'"),
        ("builtins:repr", "must return an Algorithm, but returned str"),
    ],
)
def test_an_unknown_algorithm_is_refused_in_one_line(name, line):
    with pytest.raises(InputError, match=line):
        find_algorithm(learning(algorithm=name))
