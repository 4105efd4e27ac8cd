"""Flower's simulation engine against the in-process simulator, on MNIST, to the bit."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from pmafl import runs
from pmafl.flower.loopback import running
from pmafl.learning.algorithms import ALGORITHMS
from pmafl.settings import load
from tests.flower.memory_grid import final_state

pytestmark = [pytest.mark.federation, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[2]
# On a busy machine: Ray gives itself 30 s to start, which no setting changes.
TRIES, TOO_SLOW = 5, "The current node timed out during startup"
PAPER = {
    "fleet.devices": 20,
    "fleet.samples": 300,
    "policy.name": "dual",
    "policy.tradeoff": 0.001,
    "cell.bandwidth_hz": 2e6,
    "learning.batch_size": 50,
    "run.rounds": 5,
}
# A policy and an algorithm of a user's own that remember, from outside the package.
REMEMBERING = {
    "fleet.devices": 6,
    "fleet.samples": 100,
    "policy.name": "tests.own_policies:RoundRobin",
    "policy.options.count": 2,
    "learning.algorithm": "tests.own_ditto:ditto",
    "run.plugin_path": [str(ROOT)],
    "run.rounds": 4,
}


# Every algorithm, on a few samples: what it draws, sends and keeps is what is to be seen.
FEW = {
    "fleet.devices": 3,
    "fleet.samples": 20,
    "policy.name": "uniform",
    "policy.options.count": 2,
    "learning.batch_size": 8,
    "learning.iterations": 2,
    "run.rounds": 3,
    "run.evaluate_every": 3,
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A SuperLink with the simulation engine, and a function that has it run settings."""
    folder = tmp_path_factory.mktemp("engine")
    with running(folder / "federation") as federation:
        federation.start_superlink("--insecure --simulation")

        def run(name, changes):
            where, path = folder / name, folder / f"{name}.toml"
            path.write_text(load("mnist", changes).to_toml(), encoding="utf-8")
            options = f"num-supernodes={changes['fleet.devices']} client-resources-num-cpus=1"
            config = {"settings": path, "set": "", "out": where}
            log = federation.log("run")
            for _ in range(TRIES):
                before = log.read_text() if log.exists() else ""
                federation.run(config, f"--federation-config {shlex.quote(options)}").wait(3000)
                if TOO_SLOW not in log.read_text().removeprefix(before):
                    break
            assert runs.read_summary(where), log.read_text()
            return where

        yield run


# Each starts Flower's engine anew. CI tries those with state on devices, on the server, or before a test; the
# paper's own comes below, with more rounds and devices.
OFTEN = ("scaffold", "fedbabu", "apfl", "fedbn")


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.heavy) for name in ALGORITHMS]
)
def test_every_algorithm_has_the_same_bits_in_both(tmp_path, engine, name):
    flower, plain = engine(name, FEW | {"learning.algorithm": name}), tmp_path / "plain"
    runs.create(plain, load(flower))
    runs.execute(plain)
    one, other = final_state(flower), final_state(plain)
    for key in (key for key in other if key.startswith("server/") or key in ("queue_j", "spent_j")):
        assert np.array_equal(one[key], other[key]), key
    real, simulated = (runs.read_records(where) for where in (flower, plain))
    assert [record["scheduled"] for record in real] == [record["scheduled"] for record in simulated]
    assert real[-1]["loss"] == pytest.approx(simulated[-1]["loss"], rel=1e-5)


# A network with running statistics, part of which are shared and part of which stay on the devices.
BATCHNORM = {
    "fleet.devices": 4,
    "fleet.samples": 40,
    "learning.model": "resnet8",
    "learning.shared_layers": 4,
    "learning.batch_size": 20,
    "learning.iterations": 1,
    "cell.deadline_s": 20.0,
    "policy.name": "tests.own_policies:RoundRobin",
    "policy.options.count": 3,
    "run.plugin_path": [str(ROOT)],
    "run.evaluate_every": 2,
    "run.rounds": 2,
}


@pytest.mark.parametrize(
    ("name", "changes", "server"),
    [
        ("paper", PAPER, "extractor"),
        ("remembering", REMEMBERING, "model"),
        ("batchnorm", BATCHNORM, "extractor"),
    ],
)
def test_after_some_rounds_of_mnist_both_have_the_same_server_and_schedule(
    tmp_path, engine, name, changes, server
):
    flower, plain = engine(name, changes), tmp_path / "plain"
    runs.create(plain, load(flower))
    runs.execute(plain)
    one, other = final_state(flower), final_state(plain)
    policy = [key for key in other if key.startswith("policy/")]
    for key in (f"server/{server}", "queue_j", "spent_j", *policy):
        assert np.array_equal(one[key], other[key]), key
    real, simulated = (runs.read_records(where) for where in (flower, plain))
    assert [record["scheduled"] for record in real] == [record["scheduled"] for record in simulated]
    devices, rounds = changes["fleet.devices"], changes["run.rounds"]
    assert 0 < sum(len(record["scheduled"]) for record in real) < rounds * devices  # a choice was made
