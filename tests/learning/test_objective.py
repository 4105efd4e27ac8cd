"""Values to predict and token ids: the right gradients, the right scores, from the file to the summary."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pmafl import runs
from pmafl.data import from_arrays, split
from pmafl.errors import InputError
from pmafl.learning.inputs import Samples
from pmafl.learning.objective import values as objective_of
from pmafl.learning.task import LearningTask
from pmafl.runs.exports import inputs as inputs_of
from pmafl.settings import load
from pmafl.world import build_world


def values(samples=120, outputs=1):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, 4))
    return {"x": x, "y": (x @ rng.normal(size=(4, outputs)) + 0.01 * rng.normal(size=(samples, outputs)))}


def tokens(samples=120, length=6, vocabulary=11):
    x = np.random.default_rng(1).integers(0, vocabulary, (samples, length))
    return {"x": x, "y": (x[:, 0] > vocabulary // 2).astype(int)}


def settings(**changes):
    return load(
        "mnist",
        {
            "fleet.devices": 4,
            "data.partition": "iid",
            "learning.operations_per_sample": "count",
            "learning.shared_layers": 1,
            "run.rounds": 3,
            "run.wireless": "none",
            "policy.name": "all",
        }
        | {key.replace("__", "."): value for key, value in changes.items()},
    )


def task(given, inputs="standardised", **changes):
    dataset = from_arrays("own", given, "here")
    partition = split(*dataset.labels(), 4, np.random.default_rng(0), partition="iid")
    return LearningTask(settings(**changes).learning, dataset, partition, 1, inputs)


def own_network(monkeypatch, build):
    monkeypatch.setattr("pmafl.learning.model.find_network", lambda name: build)


def embedding(input_shape, classes, size=11):
    return nn.Sequential(nn.Embedding(size, 5), nn.Flatten(), nn.Linear(5 * input_shape[0], classes))


def test_the_gradient_of_a_regression_is_that_of_the_mean_squared_error():
    learning = task(values(outputs=2))
    engine, samples = learning.method.engine, learning.device_samples(0)
    weights = learning.method.model.flat.clone()
    loss, gradient = engine.gradient(weights, samples)
    model = learning.method.model
    model.load(weights)
    model.train_only(shared=True, personal=True)
    expected = functional.mse_loss(model.module(samples.x), samples.y)
    parameters = [*model.shared, *model.personal]
    plain = torch.cat([g.reshape(-1) for g in torch.autograd.grad(expected, parameters)])
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert float((gradient - plain).norm()) < 1e-5 * float(plain.norm())


def test_errors_of_a_regression_are_absolute_and_squared_ones_per_device():
    learning = task(values())
    state = learning.start()
    metrics = learning.evaluate(state)
    assert metrics.accuracy is None
    assert metrics.global_accuracy is None
    assert metrics.device_accuracy is None
    off = objective_of((10.0,)).outcomes(torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [3.0]]))
    assert off.tolist() == [[10.0, 20.0], [1.0, 4.0]]
    assert metrics.error == pytest.approx(metrics.device_error.mean())
    assert metrics.worst_tenth_error == metrics.device_error.max()
    for round_index in range(3):
        state = learning.advance(state, range(4), round_index)
    assert learning.evaluate(state).error < 0.9 * metrics.error


def test_a_regression_runs_from_a_file_to_its_summary_and_pictures(tmp_path):
    from pmafl.plots import plot_run

    np.savez(tmp_path / "own.npz", **values())
    summary = runs.run(tmp_path / "run", settings(data__dataset=str(tmp_path / "own.npz")))
    assert summary["final_accuracy"] is None
    assert 0 < summary["best_error"] <= summary["final_error"]
    lines = (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["error"] == summary["final_error"]
    assert "error.png" in {path.name for path in plot_run(tmp_path / "run")}


def test_the_records_of_classes_have_no_errors(tmp_path):
    given = values() | {"y": np.arange(120) % 2}
    np.savez(tmp_path / "own.npz", **given)
    runs.run(tmp_path / "run", settings(data__dataset=str(tmp_path / "own.npz"), run__rounds=1))
    assert "error" not in json.loads((tmp_path / "run" / "rounds.jsonl").read_text())


@pytest.mark.parametrize("partition", ["shards", "dirichlet"])
def test_values_have_no_classes_to_split_by(tmp_path, partition):
    np.savez(tmp_path / "own.npz", **values())
    with pytest.raises(InputError, match=rf"data.partition = '{partition}': splits by class"):
        runs.run(
            tmp_path / "run", settings(data__dataset=str(tmp_path / "own.npz"), data__partition=partition)
        )
    assert not (tmp_path / "run").exists()


def test_token_ids_reach_an_embedding_as_they_are(monkeypatch):
    own_network(monkeypatch, embedding)
    learning = task(tokens(), learning__model="own:net")
    samples = learning.device_samples(0)
    assert samples.x.dtype == torch.int64
    assert samples.x.min() >= 0
    state = learning.start()
    before = learning.evaluate(state).loss
    for round_index in range(3):
        state = learning.advance(state, range(4), round_index)
    assert learning.evaluate(state).loss < before


def test_bytes_are_token_ids_where_the_settings_say_so(monkeypatch):
    own_network(monkeypatch, embedding)
    given = tokens()
    given["x"] = given["x"].astype(np.uint8)
    learning = task(given, "tokens", learning__model="own:net")
    assert learning.device_samples(0).x.dtype == torch.int64
    assert learning.method.model.vocabulary == 11
    assert inputs_of(learning.dataset, settings(data__inputs="tokens"), tokens=True)["divided_by"] == 1


def test_whole_numbers_are_measurements_to_a_network_without_an_embedding():
    learning = task(tokens())
    assert learning.device_samples(0).x.dtype == torch.float32
    assert abs(float(learning.device_samples(0).x.mean())) < 0.5


def test_a_network_without_an_embedding_may_be_told_to_take_tokens(monkeypatch):
    class OneHot(nn.Module):
        def forward(self, x):
            return functional.one_hot(x, 11).float()

    own_network(
        monkeypatch, lambda shape, classes: nn.Sequential(OneHot(), nn.Flatten(), nn.Linear(66, classes))
    )
    assert isinstance(task(tokens(), "tokens", learning__model="own:net").device_samples(0), Samples)


def test_an_embedding_that_is_too_small_is_told_in_one_line(monkeypatch):
    own_network(monkeypatch, lambda shape, classes: embedding(shape, classes, size=10))
    with pytest.raises(InputError, match=r"with token ids up to 10: index out of range") as error:
        task(tokens(), learning__model="own:net")
    assert "\n" not in str(error.value)


def test_tokens_must_be_whole_numbers_and_need_a_network_for_them():
    with pytest.raises(InputError, match=r"data.inputs = 'tokens': data set 'own' holds other numbers"):
        task(values(), "tokens")
    with pytest.raises(InputError, match=r"learning.model = 'mlp' takes measurements, not token ids"):
        task(tokens(), "tokens")
    with pytest.raises(InputError, match=r"learning.model = 'mlp' takes measurements, not token ids"):
        build_world(settings(data__inputs="tokens", run__learning="none", run__wireless="full"))
