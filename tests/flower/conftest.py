"""Federations of the small problem. These tests need the extra `flower` and are left out without it."""

import importlib.util
import json
import shlex

import numpy as np
import pytest
import torch

if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _inside_a_run():
    """What Flower tells its apps about themselves."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@pytest.fixture(autouse=True)
def _one_thread():
    """Sums of many threads may differ in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def federation(tmp_path, tiny):
    """Runs the small problem on a grid and gives its directory; settings by dotted key."""

    def run(grid, name="federation", grace_s=0.2, wait_s=0.5, **changes):
        overrides = tiny | {"cell.deadline_s": 1.0, "policy.tradeoff": 1.0, "run.evaluate_every": 5} | changes
        config = {
            "settings": "mnist",
            "set": shlex.join(f"{key}={json.dumps(value)}" for key, value in overrides.items()),
            "out": str(tmp_path / name),
            "grace-s": grace_s,
            "wait-s": wait_s,
        }
        from pmafl.flower import server

        server.run(grid, config)
        return tmp_path / name

    return run


@pytest.fixture
def images(tmp_path):
    """Noisy 28 x 28 images of ten classes: the paper's network on a problem of seconds."""
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(10), 30)
    x = np.clip(rng.integers(0, 256, (10, 1, 28, 28))[y] + rng.normal(0, 40, (300, 1, 28, 28)), 0, 255)
    np.savez(tmp_path / "images.npz", x=x.astype(np.uint8), y=y)
    return tmp_path / "images.npz"
