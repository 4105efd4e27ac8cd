"""A network with BatchNorm in a federation: the simulator's server and devices, to the bit."""

import numpy as np
import pytest

from pmafl import runs
from pmafl.flower.heads import HeadStore
from pmafl.settings import load
from tests.flower.memory_grid import MemoryGrid, final_state
from tests.flower.test_server import assert_equal_on_the_server
from tests.runs.test_statistics import RESNET

CHANGES = RESNET | {"cell.deadline_s": 2.0, "run.evaluate_every": 4}


@pytest.mark.parametrize(
    ("algorithm", "buffers"),
    [("pma", "shared"), ("fedavg", "shared"), ("local", "shared"), ("fedavg", "personal")],
)
def test_a_federated_batchnorm_resnet_is_the_simulated_one(federation, tmp_path, algorithm, buffers):
    grid = MemoryGrid(6)
    changes = CHANGES | {"learning.algorithm": algorithm, "learning.buffers": buffers}
    directory = federation(grid, **changes)
    runs.create(tmp_path / "simulated", load(directory))
    runs.execute(tmp_path / "simulated")
    simulated = final_state(tmp_path / "simulated")
    assert_equal_on_the_server(final_state(directory), simulated)
    for real, other in zip(*map(runs.read_records, (directory, tmp_path / "simulated")), strict=True):
        assert real["scheduled"] == other["scheduled"]
        assert real["train_loss"] == other["train_loss"]

    columns = [np.load(where / "devices.npy") for where in (directory, tmp_path / "simulated")]
    for name in ("round", "scheduled", "channel_gain", "frequency_hz", "power_w"):
        assert np.array_equal(columns[0][name], columns[1][name]), name
    for name in ("accuracy", "loss"):  # other batches of test samples, so other last bits
        np.testing.assert_allclose(columns[0][name], columns[1][name], rtol=1e-4)

    run, held = runs.open_run(tmp_path / "simulated"), 0
    task = run.world.task
    state = task.start()
    for record in run.rows:
        state = task.advance(state, record["scheduled"], record["round"])
    name = runs.identify(directory).run
    for device, tensors in state.devices.items():
        kept = HeadStore(grid.node(device).context, name, None).load().after
        assert kept.keys() == tensors.keys()
        assert all(np.array_equal(kept[key], tensors[key].numpy()) for key in kept)
        held += 1
    assert held == (0 if (algorithm, buffers) == ("fedavg", "shared") else len(simulated["head_devices"]))
    assert algorithm != "local" or held
