"""Devices without a connection, for a round or for ever, in every policy."""

import numpy as np
import pytest

from pmafl.efficiency import best_possible, measure, run_wireless
from pmafl.rounds import simulate
from pmafl.settings import load
from pmafl.world import build_world


def wireless(**changes):
    overrides = {"run.learning": "none", "run.rounds": 10, "policy.name": "dual"}
    return load("mnist", overrides | {key.replace("__", "."): value for key, value in changes.items()})


@pytest.fixture
def outages(tmp_path):
    """A trace of 8 rounds and 6 devices: device 3 never has a connection, nobody has in round 4."""
    rng = np.random.default_rng(0)
    gains = np.where(rng.random((8, 6)) < 0.3, 0, rng.exponential(1e-8, (8, 6)))
    gains[:, 3] = gains[4, :] = 0
    np.save(tmp_path / "outages.npy", gains)
    return gains, {"fleet.devices": 6, "fleet.samples": 600, "cell.gain_trace": str(tmp_path / "outages.npy")}


@pytest.mark.parametrize(
    "policy", ["steady", "dual", "set-expansion", "exhaustive", "ocean", "rs-wel", "uniform", "all"]
)
def test_without_a_connection_nobody_is_scheduled(outages, policy):
    gains, changes = outages
    options = {"policy.options.count": 3} if policy == "uniform" else {}
    world = build_world(wireless(**changes, policy__name=policy, run__rounds=8, **options))
    records = run_wireless(world)
    for record in records:
        assert np.all(gains[record["round"], record["scheduled"]] > 0)
    assert records[4]["scheduled"] == []
    assert sum(len(record["scheduled"]) for record in records) > 0
    found = measure(world, records, best_possible(world))
    assert found.turns[3] == 0
    assert found.samples > 0
    assert 0 < found.bound.samples <= 600 * np.count_nonzero(gains) * (1 + 1e-6)
    assert all(np.isfinite(value) for value in found.to_dict()["energy_price_samples_per_j"])


@pytest.mark.parametrize("policy", ["steady", "dual", "set-expansion", "ocean", "rs-wel"])
@pytest.mark.parametrize("gain", [0.0, 1e-40])
def test_a_run_without_any_connection_schedules_nobody(tmp_path, policy, gain):
    np.save(tmp_path / "dead.npy", np.where(np.arange(6) < 5, 0, np.full((4, 6), gain)))
    changes = {"fleet.devices": 6, "cell.gain_trace": str(tmp_path / "dead.npy"), "fleet.samples": 600}
    world = build_world(wireless(**changes, policy__name=policy, run__rounds=4))
    records = run_wireless(world)
    assert [record["scheduled"] for record in records] == [[]] * 4
    found = measure(world, records, best_possible(world))
    assert found.bound.samples == pytest.approx(0, abs=1e-3)
    assert found.share == 0


def test_learning_goes_on_through_rounds_without_a_connection(tiny, outages):
    _, changes = outages
    shorter = {key: value for key, value in changes.items() if key != "fleet.samples"}
    *_, before, dead = simulate(load("mnist", tiny | shorter | {"policy.name": "steady", "run.rounds": 5}))
    assert dead.scheduled == []
    assert dead.accuracy == before.accuracy


@pytest.mark.parametrize("policy", ["steady", "dual"])
def test_a_channel_too_weak_to_compute_with_is_no_connection(policy):
    far = {"cell.reference_gain_db": -200.0, "cell.path_loss_exponent": 10.0, "run.rounds": 2}
    records = list(simulate(wireless(**far, policy__name=policy)))
    assert [record.scheduled for record in records] == [[], []]
