"""The small installation, without PyTorch: what schedules, plans and shows works; what trains says in a line
what is missing. Every program that these tests start finds no torch, and neither do its workers.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pmafl
from tests.conftest import CELL, MNIST

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Missing)
"""
FLEET = """
extends = "mnist"
[fleet]
devices = 20
[run]
learning = "none"
rounds_per_day = 24
[plan]
deadline_s = [2, 3]
"""


@pytest.fixture
def small(tmp_path):
    """The program as it is after `pip install pmafl`, in a folder of its own."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT_TORCH)
    path = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "pmafl", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
        )

    return run


def test_it_schedules(small, tmp_path):
    cell = {name: MNIST[name] for name in CELL}
    device = {name: value for name, value in MNIST.items() if name not in CELL}
    (tmp_path / "problem.json").write_text(json.dumps({**cell, "devices": [device, device]}))
    answer = small("schedule", "problem.json", "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["scheduled"] == [0, 1]


def test_it_plans(small, tmp_path):
    (tmp_path / "fleet.toml").write_text(FLEET)
    answer = small("plan", "fleet.toml", "--plot", "plan.png", "--json")
    assert answer.returncode == 0, answer.stderr
    assert len(json.loads(answer.stdout)["choices"]) == 2
    assert (tmp_path / "plan.png").is_file()


@pytest.mark.heavy
def test_it_shows_runs_that_were_trained_elsewhere(small, tmp_path, tiny):
    settings = pmafl.load_settings("mnist", tiny | {"run.rounds": 2})
    pmafl.create_run(tmp_path / "run", settings)
    pmafl.execute_run(tmp_path / "run", workers=1)
    answer = small("view", "--no-open", "run")
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "run" / "page.html").stat().st_size > 100_000


@pytest.mark.heavy
def test_it_runs_what_trains_nothing(small, tmp_path):
    answer = small("run", "--set", "run.learning=none", "--rounds", 2, "--out", "run")
    assert answer.returncode == 0, answer.stderr
    versions = json.loads((tmp_path / "run" / "summary.json").read_text())["versions"]
    assert versions["pmafl"] == pmafl.__version__


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--set", "data.dataset=tiny.npz", "--out", "run"],
        ["compare", "--set", "data.dataset=tiny.npz", "--vary", "policy=dual,ocean", "--out", "run"],
    ],
)
def test_what_trains_says_what_is_missing(small, tmp_path, tiny_data, arguments):
    (tmp_path / "tiny.npz").write_bytes(tiny_data.read_bytes())
    answer = small(*arguments, "--set", "data.partition=iid", "--set", "fleet.devices=6")
    assert answer.stderr == f"error: pmafl {arguments[0]} needs PyTorch: pip install 'pmafl[learn]'\n"
    assert answer.returncode == 2
    assert not (tmp_path / "run").exists()


def test_only_the_extra_that_trains_brings_torch():
    everyone = " ".join(PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    assert "torch" not in everyone
    assert any(name.startswith("torch") for name in extras["learn"])
    for name in ("flower", "ray", "tensorboard", "onnx", "dev"):
        assert any(re.match(r"pmafl\[.*\blearn\b", entry) for entry in extras[name]), name
    assert "torch" not in " ".join(extras["serve"])


def test_the_version_is_the_same_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^## (\S+)", changes, flags=re.MULTILINE)[1] == PROJECT["version"]
    assert re.search(r"^version: (\S+)$", citation, flags=re.MULTILINE)[1] == PROJECT["version"]


def test_the_program_says_its_version(small):
    assert small("--version").stdout == f"pmafl {pmafl.__version__}\n"
