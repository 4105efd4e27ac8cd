from dataclasses import replace

import numpy as np
import pytest

from pmafl.efficiency import best_possible, measure, run_wireless
from pmafl.errors import InputError
from pmafl.settings import load
from pmafl.simulation import advance, build_world, channel_gain, simulate, start, wireless_world


def wireless(**changes):
    overrides = {"run.learning": "none", "run.rounds": 10, "policy.name": "dual"}
    return load("mnist", overrides | {key.replace("__", "."): value for key, value in changes.items()})


def test_policies_on_one_seed_see_the_same_devices_and_channels():
    one, other = (build_world(wireless(policy__name=name)) for name in ("dual", "ocean"))
    assert np.array_equal(one.fleet.path_gain, other.fleet.path_gain)
    assert np.array_equal(one.fleet.samples, other.fleet.samples)
    for index in (0, 7):
        assert np.array_equal(channel_gain(one, index), channel_gain(other, index))
    assert not np.array_equal(channel_gain(one, 0), channel_gain(one, 1))


def test_algorithms_on_one_seed_see_the_same_data_and_channels(tiny):
    worlds = [build_world(load("mnist", tiny | {"learning.algorithm": name})) for name in ("pma", "fedavg")]
    assert np.array_equal(channel_gain(worlds[0], 3), channel_gain(worlds[1], 3))
    for device in range(6):
        a, b = (world.task.device_samples(device) for world in worlds)
        assert np.array_equal(a.x.numpy(), b.x.numpy())


def test_schedule_and_energy_do_not_depend_on_learning(tiny):
    full = list(simulate(load("mnist", tiny)))
    alone = list(simulate(load("mnist", tiny | {"run.learning": "none"})))
    assert [
        replace(r, accuracy=None, loss=None, accuracy_std=None, worst_tenth_accuracy=None) for r in full
    ] == alone


def test_a_round_keeps_deadline_and_band():
    for record in simulate(wireless()):
        assert sum(record.bandwidth_share) <= 1 + 1e-9
        total_s = np.add(record.compute_time_s, record.upload_time_s)
        assert np.all(total_s <= 2 + 1e-9)


def test_queues_follow_the_energy():
    world = build_world(wireless())
    state = start(world)
    queue_j = np.zeros(100)
    for _ in range(10):
        state, record = advance(world, state)
        energy_j = np.zeros(100)
        energy_j[record.scheduled] = np.add(record.compute_energy_j, record.upload_energy_j)
        queue_j = np.maximum(queue_j + energy_j - world.fleet.budget_j, 0)
        assert state.queues.queue_j == pytest.approx(queue_j, abs=1e-12)


def test_a_hard_budget_is_never_exceeded():
    world = build_world(wireless(policy__hard_budget=True, run__rounds=40, policy__tradeoff=0.1))
    state = start(world)
    while state.round < 40:
        state, _ = advance(world, state)
    assert np.all(state.queues.spent_j <= 40 * world.fleet.budget_j * (1 + 1e-9))


def test_going_on_from_a_state_gives_the_same_rounds(tiny):
    world = build_world(load("mnist", tiny))
    state, whole, states = start(world), [], []
    for _ in range(5):
        states.append(state)
        state, record = advance(world, state)
        whole.append(record)
    fresh = build_world(load("mnist", tiny))
    _, record = advance(fresh, states[3])
    assert record == whole[3]


def test_learning_reaches_a_good_accuracy_on_an_easy_problem(tiny):
    *_, last = simulate(load("mnist", tiny | {"run.rounds": 15, "learning.batch_size": 8}))
    assert last.accuracy > 0.9


def test_evaluation_keeps_its_interval_and_never_misses_the_end(tiny):
    records = list(simulate(load("mnist", tiny | {"run.evaluate_every": 2})))
    assert [record.accuracy is not None for record in records] == [False, True, False, True, True]


def test_without_the_wireless_side_any_number_of_devices_takes_part(tiny):
    free = {
        "run.wireless": "none",
        "policy.name": "uniform",
        "policy.options.count": 4,
        "cell.deadline_s": 1e-6,
    }
    for record in simulate(load("mnist", tiny | free)):
        assert len(record.scheduled) == 4
        assert record.objective is None


def test_a_policy_that_needs_the_cell_is_refused_without_it():
    with pytest.raises(InputError, match="'dual' needs the radio; without it choose uniform or all"):
        build_world(load("mnist", {"run.wireless": "none", "policy.name": "dual"}))


def test_a_deadline_that_no_device_can_meet_is_refused():
    with pytest.raises(InputError, match=r"cell.deadline_s = 0.2: no device can take part"):
        build_world(wireless(cell__deadline_s=0.2))


@pytest.mark.parametrize("policy", ["uniform", "all"])
def test_a_blind_policy_drops_who_cannot_take_part_and_the_record_says_whom(policy):
    records = list(simulate(wireless(policy__name=policy, cell__path_loss_exponent=3.76)))
    assert len(records) == 10
    assert any(record.dropped for record in records)
    for record in records:
        assert not set(record.dropped) & set(record.scheduled)
        assert record.to_dict()["dropped"] == record.dropped
        assert sum(record.bandwidth_share) <= 1 + 1e-9


def test_a_trace_replaces_the_channel_model(tmp_path):
    gains = np.random.default_rng(3).exponential(1e-8, (10, 100))
    np.save(tmp_path / "gains.npy", gains)
    world = build_world(wireless(cell__gain_trace=str(tmp_path / "gains.npy")))
    assert np.array_equal(channel_gain(world, 4), gains[4])
    assert len(list(simulate(world.settings))) == 10


def test_heterogeneous_fleets_run():
    spread = {"distribution": "loguniform", "low": 60, "high": 600}
    records = list(
        simulate(wireless(fleet__samples=spread, fleet__budget_j={**spread, "low": 0.05, "high": 0.2}))
    )
    assert records[-1].scheduled_samples > 0


def test_the_wireless_world_is_the_same_without_learning(tiny):
    settings = load("mnist", tiny)
    assert np.array_equal(wireless_world(settings).fleet.samples, build_world(settings).fleet.samples)


def test_callbacks_see_every_round():
    seen = []
    list(
        simulate(
            wireless(), callbacks=[lambda world, record: seen.append((world.fleet.devices, record.round))]
        )
    )
    assert seen == [(100, index) for index in range(10)]


@pytest.fixture
def outages(tmp_path):
    """A trace of 8 rounds and 6 devices: device 3 never has a connection, nobody has in round 4."""
    rng = np.random.default_rng(0)
    gains = np.where(rng.random((8, 6)) < 0.3, 0, rng.exponential(1e-8, (8, 6)))
    gains[:, 3] = gains[4, :] = 0
    np.save(tmp_path / "outages.npy", gains)
    return gains, {"fleet.devices": 6, "fleet.samples": 600, "cell.gain_trace": str(tmp_path / "outages.npy")}


@pytest.mark.parametrize("policy", ["steady", "dual", "set-expansion", "exhaustive", "ocean", "rs-wel"])
def test_without_a_connection_nobody_is_scheduled(outages, policy):
    gains, changes = outages
    world = build_world(wireless(**changes, policy__name=policy, run__rounds=8))
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
