"""Flower's simulation engine against the in-process simulator, on MNIST, to the bit."""

import shlex

import numpy as np
import pytest

from pmafl import runs
from pmafl.flower.loopback import running
from pmafl.settings import load
from tests.flower.memory_grid import final_state

pytestmark = [pytest.mark.federation, pytest.mark.timeout(3600)]
CHANGES = {
    "fleet.devices": 20,
    "fleet.samples": 300,
    "policy.name": "dual",
    "policy.tradeoff": 0.001,
    "cell.bandwidth_hz": 2e6,
    "learning.batch_size": 50,
    "run.rounds": 5,
}
ENGINE = "num-supernodes=20 client-resources-num-cpus=1 init-args-num-cpus=2"


def test_after_five_rounds_of_mnist_both_have_the_same_extractor(tmp_path):
    changes = " ".join(f"{key}={value}" for key, value in CHANGES.items())
    with running(tmp_path / "federation") as federation:
        federation.start_superlink("--insecure --simulation")
        config = {"settings": "mnist", "set": changes, "out": tmp_path / "flower"}
        federation.run(config, f"--federation-config {shlex.quote(ENGINE)}").wait(3000)
    assert runs.read_summary(tmp_path / "flower"), federation.log("run").read_text()

    runs.create(tmp_path / "plain", load(tmp_path / "flower"))
    runs.execute(tmp_path / "plain")
    one, other = (final_state(tmp_path / name) for name in ("flower", "plain"))
    for name in ("server/extractor", "queue_j", "spent_j"):
        assert np.array_equal(one[name], other[name]), name
    real, simulated = (runs.read_records(tmp_path / name) for name in ("flower", "plain"))
    assert [record["scheduled"] for record in real] == [record["scheduled"] for record in simulated]
    assert 0 < sum(len(record["scheduled"]) for record in real) < 5 * 20  # a choice was made
