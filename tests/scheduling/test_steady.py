"""What `steady` promises: nearly the best possible schedule, hard budgets, equal treatment, no foresight."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from pmafl import runs
from pmafl.devices import Report, SimulatedDevices
from pmafl.efficiency import best_possible, measure, run_wireless
from pmafl.rounds import advance, play, round_problem, start
from pmafl.scheduling import begin
from pmafl.scheduling.steady import plan_prices, prices
from pmafl.scheduling.steady import start as plan
from pmafl.settings import load
from pmafl.world import channel_gains, outlook, wireless_world

SMALL = {  # a third of the preset's devices, band and rounds
    "fleet.devices": 30,
    "fleet.samples": 600,
    "cell.bandwidth_hz": 3e6,
    "run.rounds": 40,
}


def make_world(source="mnist", **changes):
    overrides = {"policy.name": "steady", "run.learning": "none"}
    return wireless_world(load(source, overrides | changes))


def with_trace(world, gains):
    """The world with given channels; what is known of them beforehand stays as it was."""
    return replace(
        world, channel=replace(world.channel, gains=lambda state, index, rng: (gains[index], state))
    )


def judge(world):
    return measure(world, run_wireless(world), best_possible(world))


@pytest.fixture(scope="module")
def world():
    return make_world(**SMALL)


@pytest.fixture(scope="module")
def result(world):
    return judge(world)


@pytest.mark.parametrize("source", ["mnist", pytest.param("cifar10", marks=pytest.mark.heavy)])
def test_reaches_93_percent_of_the_bound_at_the_presets_within_every_budget(source):
    result = judge(make_world(source))
    assert result.share >= 0.93
    assert result.used.max() <= 1 + 1e-9
    assert np.median(result.used) > 0.9


def test_heterogeneous_fleets_reach_it_too():
    def spread(low, high):
        return {"distribution": "loguniform", "low": low, "high": high}

    world = make_world(
        **SMALL
        | {
            "fleet.samples": spread(100, 1000),
            "fleet.max_frequency_hz": spread(3e8, 3e9),
            "fleet.budget_j": spread(0.05, 0.2),
            "cell.min_distance_m": 35.0,
        }
    )
    result = judge(world)
    assert result.share >= 0.93
    assert result.used.max() <= 1 + 1e-9


def test_neither_bursts_at_the_start_nor_idles(world):
    devices = [len(record["scheduled"]) for record in run_wireless(world)]
    assert max(devices[:5]) <= 1.25 * np.mean(devices)
    assert min(devices) >= 0.5 * np.mean(devices)


def test_equal_devices_are_served_equally(world):
    gain = np.full(30, 1e-8)
    fading = channel_gains(world) / world.fleet.path_gain
    equal = with_trace(replace(world, fleet=replace(world.fleet, path_gain=gain)), fading * gain)
    planned = plan_prices(outlook(equal))
    assert np.ptp(planned) <= 1e-6 * planned.mean()
    turns = measure(equal, run_wireless(equal), best_possible(equal)).turns
    assert np.ptp(turns) <= 2


def test_knows_nothing_of_the_future(world):
    gain = channel_gains(world)
    changed = gain.copy()
    changed[20:] *= 0.1
    one, other = (run_wireless(with_trace(world, rows)) for rows in (gain, changed))
    assert one[:20] == other[:20]
    assert one[20] != other[20]


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_wrong_channel_statistics_cost_little(world, result, factor):
    mistaken = replace(world.fleet, path_gain=world.fleet.path_gain * factor)
    wrong = with_trace(replace(world, fleet=mistaken), channel_gains(world))
    outcome = measure(wrong, run_wireless(wrong), result.bound)
    assert outcome.used.max() <= 1 + 1e-9
    assert outcome.share >= result.share - 0.05


@pytest.mark.parametrize("absent", [slice(0, 20), slice(20, 40)], ids=["joins late", "leaves"])
def test_devices_that_come_or_go_cost_little(world, result, absent):
    gain = channel_gains(world)
    gain[absent, 7] = 1e-30
    outcome = judge(with_trace(world, gain))
    assert outcome.used.max() <= 1 + 1e-9
    assert outcome.share >= result.share - 0.05
    assert outcome.turns[7] > 0


def test_going_on_from_a_saved_state_gives_the_same_rounds(world):
    states, whole = zip(*islice(play(world), 12), strict=True)
    fresh = make_world(**SMALL)
    devices = SimulatedDevices(fresh)
    assert [advance(fresh, devices, states[index])[1] for index in (3, 10)] == [whole[4], whole[11]]


class Changing(SimulatedDevices):
    """Devices whose budgets change half-way: of the first ten to half, of the next ten to twice as much."""

    def report(self, round_index):
        report = super().report(round_index)
        if round_index < 20:
            return report
        factor = np.repeat([0.5, 2.0, 1.0], 10)
        return Report(replace(report.fleet, budget_j=report.fleet.budget_j * factor), report.gain)


def test_a_budget_that_changes_half_way_is_kept_and_going_on_gives_the_same_rounds(world):
    states, whole = zip(*play(world, Changing(world)), strict=True)
    for saved in (10, 19, 25):
        fresh = make_world(**SMALL)
        rest = [record for _, record in play(fresh, Changing(fresh), states[saved])]
        assert rest == list(whole[saved + 1 :])
    budget_j = world.fleet.budget_j
    total_j = budget_j * (20 + 20 * np.repeat([0.5, 2.0, 1.0], 10))
    spent_j = states[-1].queues.spent_j
    assert np.all(spent_j <= np.maximum(total_j, states[19].queues.spent_j) * (1 + 1e-9))
    late_j = spent_j - states[19].queues.spent_j
    assert late_j[:10].sum() < late_j[20:].sum() < late_j[10:20].sum()


def test_an_interrupted_run_goes_on_to_the_same_records(tmp_path):
    settings = load("mnist", SMALL | {"policy.name": "steady", "run.learning": "none", "run.rounds": 12})

    def stop(world, record):
        if record.round == 6:
            raise KeyboardInterrupt

    for name in ("whole", "interrupted"):
        runs.create(tmp_path / name, settings)
    runs.execute(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        runs.execute(tmp_path / "interrupted", [stop])
    runs.execute(tmp_path / "interrupted")
    whole, interrupted = (
        (tmp_path / name / "rounds.jsonl").read_bytes() for name in ("whole", "interrupted")
    )
    assert whole == interrupted


def test_v_and_the_start_of_the_queues_do_not_matter(world):
    other = make_world(**SMALL, **{"policy.tradeoff": 5.0, "policy.queue_start_j": 2.0})
    records = zip(run_wireless(world)[:5], run_wireless(other)[:5], strict=True)
    assert all(one["scheduled"] == two["scheduled"] for one, two in records)


def test_a_device_ahead_of_its_plan_pays_more(world):
    spent_j = np.zeros(30)
    spent_j[3] = 2 * world.fleet.budget_j[3] * 10
    state = plan(outlook(world))
    now, planned = prices(state | {"spent_j": spent_j}, 10), prices(state, 0)
    assert now[3] > planned[3]
    assert np.all(np.delete(now < planned, 3))


def test_a_spent_budget_leaves_a_device_out(world):
    spent_j = np.zeros(30)
    spent_j[:10] = 40 * world.fleet.budget_j[:10]
    remembered = begin(world.policy, outlook(world), "steady") | {"spent_j": spent_j}
    report = SimulatedDevices(world).report(0)
    problem = round_problem(world, replace(start(world), round=10), report)
    decision = world.policy.decide(problem, remembered, None)
    assert not decision.scheduled[:10].any()
    assert decision.scheduled[10:].any()
