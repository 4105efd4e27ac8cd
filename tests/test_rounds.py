from dataclasses import replace

import numpy as np
import pytest

from pmafl.devices import SimulatedDevices
from pmafl.rounds import advance, play, simulate, start
from pmafl.scheduling import allocate_given
from pmafl.scheduling.policy import as_policy
from pmafl.settings import load
from pmafl.world import build_world


def wireless(**changes):
    overrides = {"run.learning": "none", "run.rounds": 10, "policy.name": "dual"}
    return load("mnist", overrides | {key.replace("__", "."): value for key, value in changes.items()})


def test_schedule_and_energy_do_not_depend_on_learning(tiny):
    full = list(simulate(load("mnist", tiny)))
    alone = list(simulate(load("mnist", tiny | {"run.learning": "none"})))
    assert [
        replace(r, accuracy=None, loss=None, accuracy_std=None, worst_tenth_accuracy=None, train_loss=[])
        for r in full
    ] == alone


def test_a_round_keeps_deadline_and_band():
    for record in simulate(wireless()):
        assert sum(record.bandwidth_share) <= 1 + 1e-9
        total_s = np.add(record.compute_time_s, record.upload_time_s)
        assert np.all(total_s <= 2 + 1e-9)


def test_queues_follow_the_energy():
    world = build_world(wireless())
    state, devices = start(world), SimulatedDevices(world)
    queue_j = np.zeros(100)
    for _ in range(10):
        state, record = advance(world, devices, state)
        energy_j = np.zeros(100)
        energy_j[record.scheduled] = np.add(record.compute_energy_j, record.upload_energy_j)
        queue_j = np.maximum(queue_j + energy_j - world.fleet.budget_j, 0)
        assert state.queues.queue_j == pytest.approx(queue_j, abs=1e-12)


def test_a_hard_budget_is_never_exceeded():
    world = build_world(wireless(policy__hard_budget=True, run__rounds=40, policy__tradeoff=0.1))
    *_, (state, _) = play(world)
    assert np.all(state.queues.spent_j <= 40 * world.fleet.budget_j * (1 + 1e-9))


def test_going_on_from_a_state_gives_the_same_rounds(tiny):
    world = build_world(load("mnist", tiny))
    states, whole = zip(*play(world), strict=True)
    fresh = build_world(load("mnist", tiny))
    assert tuple(record for _, record in play(fresh, state=states[2])) == whole[3:]


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


@pytest.mark.parametrize("policy", ["uniform", "all"])
def test_a_blind_policy_drops_who_cannot_take_part_and_the_record_says_whom(policy):
    records = list(simulate(wireless(policy__name=policy, cell__path_loss_exponent=3.76)))
    assert len(records) == 10
    assert any(record.dropped for record in records)
    for record in records:
        assert not set(record.dropped) & set(record.scheduled)
        assert record.to_dict()["dropped"] == record.dropped
        assert sum(record.bandwidth_share) <= 1 + 1e-9


def test_heterogeneous_fleets_run():
    spread = {"distribution": "loguniform", "low": 60, "high": 600}
    records = list(
        simulate(wireless(fleet__samples=spread, fleet__budget_j={**spread, "low": 0.05, "high": 0.2}))
    )
    assert records[-1].scheduled_samples > 0


def test_callbacks_see_every_round():
    seen = []
    list(
        simulate(
            wireless(), callbacks=[lambda world, record: seen.append((world.fleet.devices, record.round))]
        )
    )
    assert seen == [(100, index) for index in range(10)]


@pytest.mark.parametrize("channel", ["rician", "shadowing"])
def test_a_run_over_correlated_channels_goes_on_from_any_state(channel):
    """The state is copied as a checkpoint would write it, into a process that knows nothing else."""
    settings = wireless(cell__channel=channel, cell__options={"correlation": 0.9})
    states, whole = zip(*play(build_world(settings)), strict=True)
    assert states[4].devices
    assert all(isinstance(part, np.ndarray) for part in states[4].devices.values())
    saved = replace(states[4], devices={name: part.copy() for name, part in states[4].devices.items()})
    assert tuple(record for _, record in play(build_world(settings), state=saved)) == whole[5:]


def test_a_policy_knows_the_round_the_waiting_times_and_the_last_losses(tiny):
    """By hand: two of six devices take part in each round, 0 and 1 first."""
    seen = []

    class Pairs:
        def decide(self, problem, state, rng):
            seen.append(problem)
            chosen = np.arange(6) // 2 == problem.round % 3
            return allocate_given(problem, chosen, "pairs")

    world = build_world(load("mnist", tiny | {"policy.name": "all"}))
    records = [record for _, record in play(replace(world, policy=as_policy(Pairs(), "pairs")))]
    assert [problem.round for problem in seen] == [0, 1, 2, 3, 4]
    never = np.inf
    assert [problem.rounds_since.tolist() for problem in seen] == [
        [never] * 6,
        [1, 1, never, never, never, never],
        [2, 2, 1, 1, never, never],
        [3, 3, 2, 2, 1, 1],
        [1, 1, 3, 3, 2, 2],
    ]
    assert np.isnan(seen[0].last_loss).all()
    assert seen[2].last_loss[:4].tolist() == [*records[0].train_loss, *records[1].train_loss]
    assert np.isnan(seen[2].last_loss[4:]).all()
    assert seen[4].last_loss[:2].tolist() == records[3].train_loss
    assert seen[4].last_loss[2:4].tolist() == records[1].train_loss
    assert all(np.array_equal(problem.budget_j, world.fleet.budget_j) for problem in seen)


def test_without_learning_no_loss_is_known():
    world = build_world(wireless(policy__name="uniform", run__rounds=3))
    for state, record in play(world):
        assert np.isnan(state.last_loss).all()
        assert record.train_loss == []
    assert set(np.unique(state.last_turn)) <= {-1, 0, 1, 2}


class Deaf(SimulatedDevices):
    """Devices of which number 2 never delivers, and number 4 reports an energy of its own."""

    def train(self, round_index, decision, learning):
        for result in super().train(round_index, decision, learning):
            if result.device != 2:
                yield replace(result, energy_j=(1.0, 2.0)) if result.device == 4 else result


def test_who_did_not_deliver_is_charged_but_did_not_take_part(tiny):
    world = build_world(load("mnist", tiny | {"policy.name": "all"}))
    state, record = advance(world, Deaf(world), start(world))
    assert record.failed == [2]
    assert record.compute_energy_j[2] > 0
    assert (record.compute_energy_j[4], record.upload_energy_j[4]) == (1.0, 2.0)
    assert state.queues.spent_j[4] == 3.0
    assert state.last_turn.tolist() == [0, 0, -1, 0, 0, 0]
    assert np.isnan(state.last_loss).tolist() == [False, False, True, False, False, False]
    assert 2 not in state.learning.devices
    assert record.scheduled_samples == world.fleet.samples.sum() - world.fleet.samples[2]
