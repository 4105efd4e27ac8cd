"""Receiving, circuits, connecting and sleep, all the way from the settings to records and summaries."""

import json

import numpy as np
import pytest

from pmafl import runs
from pmafl.efficiency import best_possible, measure
from pmafl.errors import InputError
from pmafl.rounds import energy_of, play
from pmafl.scheduling import POLICIES, answer, find_policy, read_question
from pmafl.settings import load
from pmafl.world import outlook, wireless_world

AWAKE = {
    "fleet.devices": 12,
    "fleet.samples": 600,
    "fleet.circuit_power_w": 0.05,
    "fleet.receive_power_w": 0.1,
    "fleet.connect_energy_j": 0.01,
    "fleet.budget_j": 0.2,
    "cell.downlink_bps": 1e8,
    "run.learning": "none",
    "run.rounds": 8,
}


def world(**changes):
    return wireless_world(
        load("mnist", AWAKE | {key.replace("__", "."): value for key, value in changes.items()})
    )


def test_a_problem_has_what_the_settings_say():
    problem = outlook(world()).problem
    received_s = 533_248 * 32 / 1e8  # what the server sends is not rounded
    assert problem.download_time_s == pytest.approx(received_s)
    assert problem.receive_energy_j == pytest.approx(0.01 + 0.1 * received_s)
    assert problem.circuit_power_w == pytest.approx(0.05)
    assert problem.work_time_s == pytest.approx(2 - received_s)
    assert problem.standing_energy_j == pytest.approx(0.01 + 0.15 * received_s)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_counts_it_and_keeps_the_time(policy):
    made = world(policy__name=policy, run__rounds=3)
    received_s = outlook(made).problem.download_time_s[0]
    scheduled = 0
    for _, record in play(made):
        row = record.to_dict()
        scheduled += len(record.scheduled)
        awake_s = np.add(row["compute_time_s"], row["upload_time_s"])
        assert (awake_s <= 2.0 - received_s + 1e-9).all()
        assert row.get("awake_energy_j", []) == pytest.approx(0.01 + 0.15 * received_s + 0.05 * awake_s)
        parts = ("compute_energy_j", "upload_energy_j", "awake_energy_j")
        assert energy_of(row).sum() == pytest.approx(sum(np.sum(row.get(part, [])) for part in parts))
    assert scheduled


def test_steady_keeps_budgets_that_include_it():
    made = world(policy__name="steady", run__rounds=20)
    *_, (state, _) = play(made)
    assert (state.queues.spent_j <= 20 * 0.2 * (1 + 1e-9)).all()
    assert state.queues.spent_j.sum() > 0.8 * 12 * 20 * 0.2


def test_no_schedule_beats_the_bound_with_it():
    made = world(policy__name="steady")
    records = [record.to_dict() for _, record in play(made)]
    result = measure(made, records, best_possible(made))
    assert 0.7 < result.share <= 1 + 1e-9
    assert (result.used <= 1 + 1e-9).all()


def test_nothing_changes_where_all_of_it_is_nothing():
    zero = {key: 0.0 for key in AWAKE if key.endswith(("power_w", "connect_energy_j", "bps"))}
    plain = {key: value for key, value in AWAKE.items() if key not in zero}
    for name in ("steady", "set-expansion"):
        rows = [
            [
                record.to_dict()
                for _, record in play(wireless_world(load("mnist", plain | more | {"policy.name": name})))
            ]
            for more in ({}, zero)
        ]
        assert rows[0] == rows[1]
        assert all("awake_energy_j" not in row for row in rows[0])


def test_json_takes_and_gives_it():
    device = {"samples": 600, "cycles_per_sample": 137586.5, "max_frequency_hz": 1e9, "max_power_w": 1.0}
    device |= {"channel_gain": 1e-8, "queue_j": 0.3}
    cell = {"bandwidth_hz": 1e7, "noise_w_per_hz": 3.98e-21, "deadline_s": 2.0, "upload_bits": 8531968}
    cell |= {"energy_coefficient": 5e-27, "local_iterations": 5, "tradeoff": 1.0}
    text = json.dumps(
        {**cell, "download_time_s": 0.5, "devices": [device | {"circuit_power_w": 0.2}, device]}
    )
    question = read_question(text)
    assert question.problem.circuit_power_w.tolist() == [0.2, 0.0]
    assert question.problem.download_time_s.tolist() == [0.5, 0.5]
    found = answer(question, find_policy("dual")(question.problem, np.random.default_rng(0)))
    first, second = found["awake_energy_j"]
    assert first == pytest.approx(0.2 * (0.5 + found["compute_time_s"][0] + found["upload_time_s"][0]))
    assert second == 0
    plain = read_question(json.dumps({**cell, "devices": [device]}))
    assert "awake_energy_j" not in answer(plain, find_policy("dual")(plain.problem, np.random.default_rng(0)))


def test_a_download_longer_than_the_deadline_is_refused():
    with pytest.raises(InputError, match="the fastest receives and computes for"):
        world(cell__downlink_bps=1e6)


def test_a_summary_tells_of_sleep_and_batteries(tmp_path):
    settings = load(
        "mnist",
        AWAKE
        | {
            "policy.name": "steady",
            "fleet.sleep_power_w": 1e-3,
            "fleet.battery_j": 1e4,
            "run.rounds_per_day": 24,
        },
    )
    summary = runs.run(tmp_path / "run", settings)
    assert summary["sleep_energy_per_device_round_j"] == pytest.approx(3.6)
    day_j = 24 * (summary["energy_per_device_round_j"] + 3.6)
    assert summary["first_battery_days"] <= summary["median_battery_days"] <= summary["last_battery_days"]
    assert summary["median_battery_days"] == pytest.approx(1e4 / day_j, rel=0.1)


@pytest.mark.parametrize("preset", ["tracker", "sensor", "phone"])
def test_presets_of_fleets_run(preset):
    made = wireless_world(load(preset, {"fleet.devices": 30, "run.rounds": 2}))
    records = [record for _, record in play(made)]
    assert all(record.awake_energy_j for record in records if record.scheduled)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run.learning": "full"}, 'data.dataset = "none" trains nothing'),
        ({"fleet.samples": "equal"}, "has no samples to divide"),
        ({"run.rounds_per_day": 2000}, "do not fit a day"),
        ({"fleet.sleep_power_w": -1.0}, "must be 0 or more"),
        ({"data.dataset": "mnist", "run.learning": "full"}, "stands for a model that is not trained"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        load("tracker", changes)
