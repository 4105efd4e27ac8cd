from dataclasses import asdict, replace

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from pmafl.errors import InputError
from pmafl.flower.device import LIMITS, Device
from pmafl.flower.messages import Task
from pmafl.settings import load
from pmafl.world import build_world, channel_gain

TASK = Task("run", 2, "", [1, 8, 8], 4, [0.5], [0.25])


@pytest.fixture
def settings(tiny):
    return load("mnist", tiny | {"fleet.budget_j": {"distribution": "uniform", "low": 0.1, "high": 0.2}})


@pytest.fixture
def device(settings):
    """A device with a node configuration; underscores stand for dashes."""

    def build(run_config=None, **config):
        config = {"partition-id": 3} | {key.replace("_", "-"): value for key, value in config.items()}
        context = Context(1, 1, config, RecordDict(), run_config or {})
        return Device(replace(TASK, settings=settings.to_toml()), context)

    return build


def test_by_default_a_node_is_the_simulated_device(device, settings):
    world, profile = build_world(settings), device().profile()
    assert profile.samples == world.fleet.samples[3]
    assert profile.channel_gain == channel_gain(world, 2)[3]
    for name in LIMITS:
        assert getattr(profile, name) == getattr(world.fleet, name)[3]
    mine, simulated = device().learning_task().device_samples(0), world.task.device_samples(3)
    assert np.array_equal(mine.x.numpy(), simulated.x.numpy())
    assert np.array_equal(mine.y.numpy(), simulated.y.numpy())


def test_a_node_knows_its_own_limits_better(device):
    own = device(budget_j=3, max_frequency_hz=2.5e9, cycles_per_sample=1e6, max_power_w=0.5).profile()
    assert asdict(own) | {"budget_j": 3.0, "max_frequency_hz": 2.5e9} == asdict(own)
    assert (own.cycles_per_sample, own.max_power_w) == (1e6, 0.5)


def test_a_measured_gain_replaces_the_model(device, tmp_path):
    (tmp_path / "gain").write_text("2.5e-9\n")
    assert device(gain_file=str(tmp_path / "gain")).profile().channel_gain == 2.5e-9
    with pytest.raises(InputError, match="gain-file"):
        device(gain_file=str(tmp_path / "nothing")).profile()


def test_a_node_trains_on_its_own_samples_of_some_classes(device, tmp_path):
    x, y = np.random.default_rng(0).integers(0, 256, (20, 1, 8, 8), dtype=np.uint8), np.tile([1, 3], 10)
    np.savez(tmp_path / "own.npz", x=x, y=y)
    own = device(data=str(tmp_path / "own.npz"))
    samples = own.learning_task().device_samples(0)
    assert own.profile().samples == len(samples.y) == 16
    assert set(samples.y.tolist()) == {1, 3}
    assert samples.x.max() <= (1 - 0.5) / 0.25  # scaled as the run says


def test_own_samples_must_fit_the_network(device, tmp_path):
    x = np.zeros((20, 1, 9, 9), np.uint8)
    np.savez(tmp_path / "own.npz", x=x, y=np.tile([1, 3], 10))
    with pytest.raises(InputError, match=r"a sample is \(1, 9, 9\); the run needs \(1, 8, 8\)"):
        device(data=str(tmp_path / "own.npz")).profile()
    np.savez(tmp_path / "own.npz", x=x[:, :, :8, :8], y=np.tile([1, 4], 10))
    with pytest.raises(InputError, match="has label 4; must be 0 to 3"):
        device(data=str(tmp_path / "own.npz")).profile()


def test_energy_is_measured_where_there_is_a_counter(device, tmp_path):
    counter = tmp_path / "energy_uj"
    (tmp_path / "max_energy_range_uj").write_text("1000000\n")
    counter.write_text("100000\n")
    with device(energy_counter=str(counter)).metered() as meter:
        counter.write_text("350000\n")
    assert meter.energy_j == pytest.approx(0.25)
    with device(energy_counter=str(counter)).metered() as meter:
        counter.write_text("50000\n")  # it went round
    assert meter.energy_j == pytest.approx(0.7)


def test_without_a_readable_counter_nothing_is_measured(device, tmp_path, caplog):
    with device().metered() as meter:
        pass
    assert meter.energy_j is None
    with device(energy_counter=str(tmp_path / "secret")).metered() as meter:
        pass
    assert meter.energy_j is None
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize("number", [6, -1, "two", None])
def test_a_node_must_know_which_device_it_is(device, number):
    with pytest.raises(InputError, match=r"partition-id = .*from 0 to 5"):
        device(partition_id=number)


def test_virtual_nodes_keep_their_heads_apart(device, tmp_path):
    assert device().state_directory is None
    assert device(state_dir="/var/own").state_directory.name == "own"
    assert device({"state-dir": str(tmp_path)}).state_directory == tmp_path / "device-3"
