"""Logging elsewhere, offline. Each test needs the extra of its service and is left out without it."""

import builtins
import math
import struct
import sys
import types

import pytest
from typer.testing import CliRunner

from pmafl import callbacks, runs
from pmafl.cli import app
from pmafl.errors import InputError
from pmafl.rounds import simulate
from pmafl.settings import load


def recorded(directory, name):
    return [record[name] for record in runs.read_records(directory)]


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """Nothing of these services leaves the machine or the test's folder."""
    for key, value in {
        "WANDB_MODE": "offline", "WANDB_DIR": tmp_path, "WANDB_SILENT": "true", "WANDB_CACHE_DIR": tmp_path,
        "WANDB_CONFIG_DIR": tmp_path, "WANDB_DATA_DIR": tmp_path, "WANDB_DISABLE_GIT": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "MLFLOW_ALLOW_FILE_STORE": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(key, str(value))


def log_records(content, header=7, block=32768):
    """The records of a log in LevelDB's format: blocks with pieces of records, each after its own header."""
    place, record = header, b""
    while place + 7 <= len(content):
        if block - place % block < 7:  # too little for a header: the rest of the block is empty
            place += block - place % block
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield record
            record = b""


def test_weights_and_biases_gets_every_round(tmp_path, tiny, offline):
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    log = callbacks.wandb("cells", dir=str(tmp_path), name="one")
    runs.run(tmp_path / "run", load("mnist", tiny | {"run.evaluate_every": 2}), [log])
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    seen, config = {}, ""
    for data in log_records(file.read_bytes()):
        found = wandb_internal_pb2.Record()
        found.ParseFromString(data)
        if found.HasField("history"):
            row = {"".join(item.nested_key) or item.key: item.value_json for item in found.history.item}
            seen[int(row["_step"])] = row
        if found.HasField("run"):
            assert found.run.project == "cells"
            config += str(found.run.config)
    assert sorted(seen) == [0, 1, 2, 3, 4]
    energy_j = [float(seen[step]["mean_energy_j"]) for step in sorted(seen)]
    assert energy_j == pytest.approx(recorded(tmp_path / "run", "mean_energy_j"))
    assert "accuracy" not in seen[0]  # was not evaluated
    assert float(seen[4]["accuracy"]) == pytest.approx(recorded(tmp_path / "run", "accuracy")[-1])
    assert "set-expansion" in config


def test_mlflow_gets_every_round_and_the_settings(tmp_path, tiny, offline):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    place = (tmp_path / "mlruns").as_uri()
    log = callbacks.mlflow("cells", tracking_uri=place, name="one")
    runs.run(tmp_path / "run", load("mnist", tiny | {"run.evaluate_every": 2}), [log])
    client = MlflowClient(place)
    experiment = client.get_experiment_by_name("cells")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "one")
    assert run.data.params["policy.name"] == "set-expansion"
    assert run.data.params["fleet.devices"] == "6"
    history = client.get_metric_history(run.info.run_id, "mean_energy_j")
    assert [metric.step for metric in history] == [0, 1, 2, 3, 4]
    assert [metric.value for metric in history] == pytest.approx(recorded(tmp_path / "run", "mean_energy_j"))
    assert [m.step for m in client.get_metric_history(run.info.run_id, "accuracy")] == [1, 3, 4]
    again = callbacks.mlflow("cells", tracking_uri=place)
    for _ in simulate(load("mnist", tiny | {"run.learning": "none", "run.rounds": 1}), [again]):
        pass
    assert len(client.search_runs([experiment.experiment_id])) == 2


@pytest.mark.parametrize(
    ("log_to", "package", "name"),
    [(callbacks.wandb, "wandb", "Weights & Biases"), (callbacks.mlflow, "mlflow", "MLflow")],
)
def test_a_service_that_is_not_installed_is_said_at_once(monkeypatch, log_to, package, name):
    real = builtins.__import__

    def without(wanted, *rest):
        if wanted.partition(".")[0] == package:
            raise ImportError(wanted)
        return real(wanted, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=rf"{name} is not installed; pip install 'pmafl\[{package}\]'"):
        log_to("cells")


class Refused(Exception):
    """As the services raise them, over several lines."""

    def __init__(self, *of):
        super().__init__("\x1b[91mno key\x1b[0m configured\nsecond line")


def refuse(*args, **options):
    raise Refused


def stand_in(monkeypatch, package, **members):
    """A module in the place of a service's, which need not be installed."""
    module = types.ModuleType(package)
    for name, member in members.items():
        setattr(module, name, member)
    monkeypatch.setitem(sys.modules, package, module)


def stand_in_mlflow(monkeypatch, client):
    stand_in(monkeypatch, "mlflow", MlflowClient=client)
    stand_in(monkeypatch, "mlflow.entities", Metric=lambda *of: of, Param=lambda *of: of)


ARGUMENTS = ["run", "mnist", "--policy", "uniform", "--set", "policy.options.count=2", "--rounds", "1"]
WIRELESS = ["--set", "run.learning=none", "--set", "fleet.samples=60"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--wandb", "Weights & Biases cannot be used: no key configured; log in with wandb login"),
        ("--mlflow", "MLflow cannot be used: no key configured; MLFLOW_TRACKING_URI must be"),
    ],
)
def test_a_service_that_refuses_is_one_line_and_leaves_no_directory(monkeypatch, tmp_path, option, says):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    stand_in(monkeypatch, "wandb", login=refuse)
    stand_in_mlflow(monkeypatch, refuse)
    result = CliRunner().invoke(app, [*ARGUMENTS, *WIRELESS, option, "cells", "--out", str(tmp_path / "run")])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(says)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_an_mlflow_server_that_nobody_reaches_is_said_before_the_run(monkeypatch):
    stand_in_mlflow(monkeypatch, lambda uri: types.SimpleNamespace(get_experiment_by_name=refuse))
    with pytest.raises(InputError, match="MLflow cannot be used: no key configured"):
        callbacks.mlflow("cells", "http://nowhere")


def test_a_service_that_fails_in_a_run_is_one_line(monkeypatch, tiny):
    monkeypatch.setenv("WANDB_MODE", "offline")  # nobody is asked to log in
    stand_in(monkeypatch, "wandb", login=refuse, init=refuse)
    log = callbacks.wandb("cells")
    with pytest.raises(InputError, match=r"Biases cannot be used: no key configured; .*WANDB_MODE=offline$"):
        list(simulate(load("mnist", tiny | {"run.learning": "none", "run.rounds": 1}), [log]))


def test_only_what_was_measured_is_logged(tiny):
    for record in simulate(load("mnist", tiny | {"run.evaluate_every": 2, "run.rounds": 2})):
        scalars = callbacks._scalars(record)
        assert ("accuracy" in scalars) == (record.round == 1)
        assert all(math.isfinite(value) for value in scalars.values())
