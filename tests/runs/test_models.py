"""Models of a run, in this process and out of it: they score what the run recorded."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from pmafl import runs
from pmafl.cli import app
from pmafl.errors import InputError
from tests.runs.directories import run
from tests.runs.test_statistics import RESNET

OWN = "tests.learning.user_models:small_resnet"
OUTSIDE = """
import importlib, importlib.util, json, sys
from pathlib import Path
import numpy as np, torch
from safetensors.torch import load_file

def module_of(folder, network):
    if network["code"].endswith(".py"):
        spec = importlib.util.spec_from_file_location("network", folder / network["code"])
        code = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(code)
    else:
        sys.path[:0] = network["folders"]
        code = importlib.import_module(network["code"])
    return getattr(code, network["function"])(*network["arguments"], **network["options"])

for folder in map(Path, sys.argv[1:]):
    about = json.loads((folder / "model.json").read_text())
    module = module_of(folder, about["network"]).eval()
    for model in about["models"]:
        data = np.load(folder / f"test-{model['device']}.npz")
        x = torch.from_numpy(data["x"])
        if not about["inputs"]["tokens"]:
            shape = [1] * x.dim()
            shape[about["inputs"]["axis"]] = -1
            mean, std = (torch.tensor(about["inputs"][name]).view(shape) for name in ("mean", "std"))
            x = (x.float() / about["inputs"]["divided_by"] - mean) / std
        module.load_state_dict(load_file(folder / model["file"]))
        with torch.no_grad():
            scores = module(x if x.is_floating_point() else x.long()).double()
        if "outputs" in about:
            mean, std = (torch.tensor(about["outputs"][name]) for name in ("mean", "std"))
            error = (scores * std + mean - torch.from_numpy(data["y"])).abs().mean()
            assert abs(error / model["error"] - 1) < 1e-3, (folder, model, error)
            assert model["accuracy"] is None
        else:
            right = scores.argmax(1).numpy() == data["y"]
            assert abs(right.mean() - model["accuracy"]) < 1e-9, (folder, model, right.mean())
            assert model["error"] is None
assert "pmafl" not in sys.modules
print("all as recorded")
"""


def invoke(*words):
    return CliRunner().invoke(app, ["export", *map(str, words)])


def save_tests(this, folder, devices):
    """The test samples of devices as they are stored, for a process that has nothing else."""
    dataset, evaluator = this.world.task.dataset, this.world.task._evaluator
    for device in devices:
        rows = evaluator._order[evaluator.rows[device]]
        np.savez(folder / f"test-{device}.npz", x=dataset.x_test[rows], y=dataset.y_test[rows])


@pytest.mark.parametrize(
    ("algorithm", "buffers"), [("pma", "personal"), ("fedavg", "shared"), ("local", "shared")]
)
def test_the_model_of_a_device_scores_what_was_recorded(tmp_path, tiny, algorithm, buffers):
    changes = RESNET | {"run.evaluate_every": 1, "learning.algorithm": algorithm, "learning.buffers": buffers}
    run(tmp_path / "run", tiny | changes)
    this = runs.open_run(tmp_path / "run")
    columns = np.load(tmp_path / "run" / "devices.npy")
    dataset, evaluator = this.world.task.dataset, this.world.task._evaluator
    for rounds in (4, 3, 1):  # the first is not in a checkpoint any more
        models = runs.Models(this, rounds)
        assert models.rounds == rounds
        for device in (0, 4):
            rows = evaluator._order[evaluator.rows[device]]
            with torch.no_grad():
                scores = models.module(device)(torch.from_numpy(dataset.scaled(dataset.x_test[rows])))
            right = (scores.argmax(1).numpy() == dataset.y_test[rows]).mean()
            assert right == pytest.approx(columns["accuracy"][rounds - 1, device])
    assert isinstance(this.model(2), torch.nn.Sequential)
    if algorithm == "fedavg":
        one, other = this.model().state_dict(), this.model(3, rounds=4).state_dict()
        assert all(torch.equal(one[name], other[name]) for name in one)
    else:
        with pytest.raises(InputError, match="every device has a model of its own"):
            this.model()


MY_NET = """
from torch import nn

def small(shape, classes, units=5):
    chain = nn.Linear(64, units), nn.BatchNorm1d(units), nn.ReLU(), nn.Linear(units, classes)
    return nn.Sequential(nn.Flatten(), *chain)

def words(shape, classes):
    looked_up = nn.Embedding(11, 5).requires_grad_(False), nn.Flatten()
    return nn.Sequential(*looked_up, nn.Linear(5 * shape[0], 8), nn.ReLU(), nn.Linear(8, classes))
"""


@pytest.mark.heavy
def test_exported_models_score_the_same_where_pmafl_never_was(tmp_path, tiny):
    """Every kind of network and data, in a process that imports none of pmafl."""
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "my_net.py").write_text(MY_NET)
    rng = np.random.default_rng(0)
    moved, ids = rng.normal(size=(120, 8, 3)), rng.integers(0, 11, (120, 6))
    np.savez(tmp_path / "values.npz", x=moved[:, 0], y=moved[:, 0] @ rng.normal(size=(3, 2)) + 30)
    np.savez(tmp_path / "sequences.npz", x=moved, y=(moved[:, 0, 0] > 0).astype(int))
    np.savez(tmp_path / "words.npz", x=ids, y=(ids[:, 0] > 5).astype(int))
    my_nets = {"run.plugin_path": [str(tmp_path / "nets")]}
    cases = {
        "values": {"data.dataset": str(tmp_path / "values.npz")},
        "sequences": {"data.dataset": str(tmp_path / "sequences.npz"), "learning.model": "cnn1d"},
        "words": my_nets
        | {"data.dataset": str(tmp_path / "words.npz"), "learning.model": "my_net:words"}
        | {"learning.shared": ["2.*"]},
        "paper": {"learning.model": "mlp"},
        "ready": {"learning.model": "resnet8", "learning.shared": ["!*bn*"], "run.rounds": 2},
        "own": {
            "learning.model": "my_net:small",
            "learning.model_options": {"units": 7},
            "learning.shared_layers": 1,
        }
        | my_nets,
    }
    folders = []
    for name, changes in cases.items():
        run(tmp_path / name, tiny | {"run.rounds": 3, "cell.bandwidth_hz": 1e8} | changes)
        result = invoke(tmp_path / name, "--all")
        assert result.exit_code == 0, result.output
        folders.append(tmp_path / name / "export")
        about = json.loads((folders[-1] / "model.json").read_text())
        assert [model["device"] for model in about["models"]] == [*range(6)]
        assert (about["network"]["code"] == "network.py") == (folders[-1] / "network.py").exists()
        save_tests(runs.open_run(tmp_path / name), folders[-1], range(6))
    outside = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = [sys.executable, "-c", OUTSIDE, *map(str, folders)]
    process = subprocess.run(words, cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)
    assert process.stdout == "all as recorded\n", process.stderr


def test_odd_buffers_and_state_of_a_users_own_are_exported(tmp_path, tiny):
    changes = {"learning.model": "tests.learning.user_models:odd_state", "learning.algorithm": "fedavg"}
    run(tmp_path / "run", tiny | changes | {"run.rounds": 1})
    assert invoke(tmp_path / "run").exit_code == 0
    module = runs.open_run(tmp_path / "run").model()
    saved = load_file(tmp_path / "run" / "export" / "model.safetensors")
    assert saved.keys() == dict([*module.named_parameters(), *module.named_buffers()]).keys()
    assert torch.equal(saved["turned"], module.turned)


def test_nothing_is_written_where_the_scores_cannot_be_read(tmp_path, tiny):
    run(tmp_path / "run", tiny | {"run.rounds": 2})
    (tmp_path / "run" / "devices.npy").write_bytes(b"no numbers")
    result = invoke(tmp_path / "run", "--device", 0)
    assert isinstance(result.exception, InputError)
    assert not (tmp_path / "run" / "export").exists()


def test_an_earlier_round_is_the_one_of_a_shorter_run(tmp_path, tiny):
    run(tmp_path / "long", tiny | {"learning.algorithm": "fedavg"})
    run(tmp_path / "short", tiny | {"learning.algorithm": "fedavg", "run.rounds": 2})
    assert invoke(tmp_path / "long", "--round", 2, "--out", tmp_path / "one").exit_code == 0
    assert invoke(tmp_path / "short", "--out", tmp_path / "other").exit_code == 0
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "other"))
    assert one == other
    about = json.loads((tmp_path / "one" / "model.json").read_text())
    assert about["rounds"] == 2
    assert about["models"][0]["accuracy"] == runs.read_records(tmp_path / "long")[1]["accuracy"]


@pytest.fixture
def of_people(tmp_path, tiny):
    """The small problem with samples of four people, and three devices."""
    x = np.random.default_rng(0).normal(size=(80, 5))
    people = np.repeat(["zoe", "ann", "bob", "cid"], 20)
    np.savez(tmp_path / "people.npz", x=x, y=np.arange(80) % 2, person=people)
    own = {"data.dataset": str(tmp_path / "people.npz"), "data.client": "person", "run.rounds": 1}
    return tiny | own | {"data.partition": "natural", "fleet.devices": 3}


@pytest.mark.parametrize("learning", ["full", "none"])
def test_a_summary_says_whose_the_devices_are(tmp_path, of_people, learning):
    summary = run(tmp_path / "run", of_people | {"run.learning": learning})
    names = summary["clients"]
    assert names == sorted(set(names) & {"ann", "bob", "cid", "zoe"})
    assert len(names) == 3
    assert runs.read_summary(tmp_path / "run") == summary
    if learning == "full":
        assert invoke(tmp_path / "run", "--device", 1).exit_code == 0
        about = json.loads((tmp_path / "run" / "export" / "model.json").read_text())
        assert about["models"][0]["client"] == names[1]


def test_where_samples_are_dealt_out_devices_are_nobodys(tmp_path, of_people):
    assert "clients" not in run(tmp_path / "run", of_people | {"data.partition": "iid"})


def test_what_cannot_be_exported_is_refused_in_one_line(tmp_path, tiny):
    run(tmp_path / "run", tiny | {"run.rounds": 2})
    run(tmp_path / "wireless", tiny | {"run.rounds": 2, "run.learning": "none"})
    for words, line in [
        ((tmp_path / "run",), "every device has a model of its own; say which device"),
        ((tmp_path / "run", "--device", 6), "device 6: there are devices 0 to 5"),
        ((tmp_path / "run", "--device", -1), "device -1: there are devices 0 to 5"),
        (
            (tmp_path / "run", "--device", 1, "--round", 3),
            "round 3: the run has 2 rounds so far; must be 0 to 2",
        ),
        ((tmp_path / "run", "--device", 1, "--all"), "--device and --all were both given"),
        ((tmp_path / "wireless", "--all"), "is a run without learning: it has no models"),
        ((tmp_path / "nowhere", "--all"), "is not a run directory"),
    ]:
        result = invoke(*words)
        assert isinstance(result.exception, InputError), (words, result.output)
        assert line in str(result.exception)
        assert "\n" not in str(result.exception)
    assert not (tmp_path / "run" / "export").exists()


def test_onnx_gives_the_same_scores(tmp_path, tiny):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run(tmp_path / "run", tiny | RESNET | {"run.rounds": 1})
    result = invoke(tmp_path / "run", "--device", 1, "--format", "onnx")
    assert result.exit_code == 0, result.output
    session = runtime.InferenceSession(tmp_path / "run" / "export" / "device-1.onnx")
    x = torch.randn(5, 1, 8, 8)
    with torch.no_grad():
        expected = runs.open_run(tmp_path / "run").model(1)(x)
    (scores,) = session.run(["scores"], {"x": x.numpy()})
    np.testing.assert_allclose(scores, expected.numpy(), rtol=1e-3, atol=1e-5)


def test_what_onnx_cannot_say_is_one_line(tmp_path, tiny):
    pytest.importorskip("onnxscript")
    model = {"learning.model": "tests.learning.user_models:asks_numpy", "learning.shared_layers": 1}
    run(tmp_path / "run", tiny | model | {"run.rounds": 1, "learning.operations_per_sample": 1e4})
    result = invoke(tmp_path / "run", "--device", 1, "--format", "onnx")
    assert isinstance(result.exception, InputError)
    assert "asks_numpy': torch cannot write it as ONNX: " in str(result.exception)
    assert not (tmp_path / "run" / "export").exists()


def coloured(*args, **options):
    """Fails as torch does: what is wrong stands in the cause, and then how to tell its developers."""
    try:
        raise ValueError("\n\x1b[91mno function\x1b[0m for aten.thing\nmore")
    except ValueError as cause:
        raise RuntimeError("Failed. \x1b[96mThis is step 1/3\x1b[0m of it.\n- Next steps") from cause


def test_a_failed_onnx_export_says_what_is_wrong_without_colours(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("pmafl.runs.exports.ONNX_PACKAGES", ())
    monkeypatch.setattr("torch.onnx.export", coloured)
    run(tmp_path / "run", tiny | {"run.rounds": 1})
    result = invoke(tmp_path / "run", "--device", 1, "--format", "onnx")
    assert isinstance(result.exception, InputError)
    assert str(result.exception).endswith("torch cannot write it as ONNX: no function for aten.thing")


def test_without_onnx_its_packages_are_named(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("pmafl.runs.exports.ONNX_PACKAGES", ("no_such_package",))
    run(tmp_path / "run", tiny | {"run.rounds": 1})
    result = invoke(tmp_path / "run", "--all", "--format", "onnx")
    assert "ONNX needs no_such_package: pip install 'pmafl[onnx]'" in str(result.exception)
