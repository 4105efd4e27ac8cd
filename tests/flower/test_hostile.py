"""Devices that lie, poison and cheat: the run goes on, and so does the same run when it is started again."""

import json

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from pmafl import runs
from pmafl.errors import InputError
from pmafl.flower.conduct import FIRST_ROUNDS_ASIDE
from pmafl.flower.heads import HeadStore
from pmafl.scheduling import queues
from pmafl.scheduling.steady import prices
from pmafl.wireless.problem import LARGEST
from tests.flower.memory_grid import MemoryGrid, final_state
from tests.flower.test_limits import mutated
from tests.flower.test_server import Killed, only_in, untimed

POLICIES = ["set-expansion", "dual", "ocean", "rs-wel", "uniform", "all", "steady"]
WIDE = {"cell.bandwidth_hz": 1e9}


def saying(record, **lies):
    """Spoils numbers of one kind of record, wherever it appears."""

    def spoil(_, reply):
        if not reply.has_error() and record in reply.content:
            for name, lie in lies.items():
                reply.content[record][name] = lie
        return reply

    return spoil


def poisoned(change):
    """Sends what `change` makes of the weights before and after training."""

    def spoil(message, reply):
        if message.metadata.message_type == "train" and not reply.has_error():
            before = np.frombuffer(message.content["weights"]["extractor/0"].data, np.float32)
            array = reply.content["weights"]["extractor/0"]
            after = np.frombuffer(array.data, np.float16).astype(np.float32)
            array.data = np.clip(change(before, after), -65504, 65504).astype(np.float16).tobytes()
        return reply

    return spoil


def reasons(directory):
    return [offence["reason"] for record in runs.read_records(directory) for offence in record["misbehaved"]]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_claimed_energy_ends_a_federation(federation, policy):
    grid = MemoryGrid(6)
    for device, measured in ((2, 0), (3, 1)):
        grid.node(device).spoil = saying(
            "report", compute_energy_j=1e15, upload_energy_j=1e15, measured=measured, train_time_s=0.1
        )
    count = {"policy.options.count": 3} if policy == "uniform" else {}
    directory = federation(grid, **WIDE, **count, **{"policy.name": policy, "run.rounds": 6})
    records = runs.read_records(directory)
    assert len(records) == 6
    for device in (2, 3):
        assert any(device in record["scheduled"] for record in records)
    assert all("energy_j is 1e+15" in reason for reason in reasons(directory))
    assert final_state(directory)["queue_j"].max() < 100


CLAIMS = [{"budget_j": 1e-40}, {"max_frequency_hz": 1.0}, {"samples": 10**9}, {"channel_gain": 1e-50}]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_claimed_profile_ends_a_federation(federation, policy):
    grid = MemoryGrid(6)
    for device, claim in enumerate(CLAIMS):
        grid.node(device).spoil = saying("profile", **claim)
    count = {"policy.options.count": 2} if policy == "uniform" else {}
    directory = federation(grid, **WIDE, **count, **{"policy.name": policy, "run.rounds": 3})
    records = runs.read_records(directory)
    assert [record["answered"] for record in records] == [[4, 5]] * 3
    for name in (next(iter(claim)) for claim in CLAIMS):
        assert any(name in offence["reason"] for offence in records[0]["misbehaved"])
    known = json.loads((directory / "federation.json").read_text())["fleet"]
    assert known["budget_j"][0] == pytest.approx(0.1)


@pytest.mark.heavy
def test_a_believed_profile_at_its_edges_does_not_end_a_federation(federation):
    for number, claim in enumerate(
        (
            {"budget_j": 1.01e-4},
            {"budget_j": 99.0, "samples": 20_000},
            {"cycles_per_sample": 100.0, "samples": 20_000, "max_power_w": 999.0},
            {"channel_gain": 1e-40},
            {"channel_gain": 0.0},
        )
    ):
        for policy in ("steady", "dual", "set-expansion", "ocean", "rs-wel"):
            grid = MemoryGrid(6)
            grid.node(2).spoil = saying("profile", **claim)
            directory = federation(grid, f"{policy}-{number}", **{"policy.name": policy, "run.rounds": 3})
            assert len(runs.read_records(directory)) == 3


def test_uniform_takes_all_where_fewer_are_left_than_it_draws(federation):
    grid = MemoryGrid(6)
    grid.node(2).spoil = saying("profile", budget_j=1e-40)
    directory = federation(
        grid, **WIDE, **{"policy.name": "uniform", "policy.options.count": 6, "run.rounds": 3}
    )
    assert [record["scheduled"] for record in runs.read_records(directory)] == [[0, 1, 3, 4, 5]] * 3


def test_prices_of_energy_stay_within_what_a_round_takes():
    state = {
        "price": np.full(2, 1e9),
        "budget_j": np.full(2, 1e-4),
        "total_j": np.full(2, 1e-2),
        "spent_j": np.array([1.0, 0.0]),
        "rounds": np.array(100),
    }
    assert prices(state, 0).tolist() == [LARGEST, 1e9]


def test_a_queue_stays_within_what_a_round_takes():
    state = queues.start(3)
    energy_j = np.array([1e15, 1e-42, 0.5])
    for _ in range(3):
        state = queues.advance(state, energy_j, np.zeros(3))
    assert state.queue_j.tolist() == [LARGEST, 0.0, 1.5]


EVERYONE = WIDE | {"policy.name": "all", "run.rounds": 8, "run.evaluate_every": 1}
AT_THE_END = EVERYONE | {"run.evaluate_every": 8}


def scaled(factor):
    return poisoned(lambda before, after: before + factor * (after - before))


def test_an_upload_scaled_beyond_reason_is_refused_and_heads_live(federation, tmp_path):
    grid = MemoryGrid(6, state_dir=tmp_path / "devices")
    grid.node(2).spoil = scaled(1e6)
    directory = federation(grid, **AT_THE_END)
    records = runs.read_records(directory)
    assert records[0]["failed"] == [2]
    assert [record["failed"] for record in records[1:5]] == [[]] * 4
    assert records[-1]["accuracy"] > 0.9
    for device in range(6):
        stored = HeadStore(grid.node(device).context, "x", None)
        assert stored.load() is None  # under another run's name
        (path,) = (tmp_path / "devices" / str(device)).glob("*/head.safetensors")
        head = HeadStore(grid.node(device).context, path.parent.name, path.parent.parent).load()
        assert np.abs(head.after["head"]).max() < 100


@pytest.mark.parametrize("rule", ["median", "trimmed-mean", "clipped-mean"])
@pytest.mark.parametrize("factor", [300.0, -30.0])
def test_a_robust_rule_withstands_an_upload_that_looks_possible(federation, rule, factor):
    grid = MemoryGrid(6)
    grid.node(2).spoil = scaled(factor)
    directory = federation(grid, **AT_THE_END, **{"learning.aggregation": rule})
    records = runs.read_records(directory)
    assert not any(record["failed"] for record in records)
    assert records[-1]["accuracy"] > 0.9
    assert np.abs(final_state(directory)["server/extractor"]).max() < 10


def test_the_mean_withstands_nobody(federation):
    """Why there are robust rules: the same upload, and honest devices are worse off than untrained."""
    grid = MemoryGrid(6)
    grid.node(2).spoil = scaled(300.0)
    record = runs.read_records(federation(grid, **EVERYONE))[-1]
    assert record["accuracy"] < 0.9


def broken(array):
    """An extractor with which no gradient is a number, although each of its values might be."""
    return np.where(np.arange(array.size) % 2, 9e3, -9e3).astype(np.float32)


def test_a_broken_extractor_leaves_the_heads_as_they_were(federation, tmp_path):
    grid = MemoryGrid(6, state_dir=tmp_path / "devices")
    heads = {}

    def break_extractor(device):
        node = grid.node(device)
        answer = node.answer

        def misled(message):
            kind, number = message.metadata.message_type, int(message.metadata.group_id) - 1
            if kind != "query.profile" and number in (2, 3):
                array = message.content["weights"]["extractor/0"]
                array.data = broken(np.frombuffer(array.data, np.float32)).tobytes()
            (path,) = list((tmp_path / "devices" / str(device)).glob("*/head.safetensors")) or [None]
            heads[device, number, kind] = path.read_bytes() if path else None
            return answer(message)

        node.answer = misled

    break_extractor(3)
    directory = federation(grid, **EVERYONE)
    records = runs.read_records(directory)
    assert [3 in record["failed"] for record in records] == [False, False, True, True] + 4 * [False]
    assert not reasons(directory)  # a device that says that it failed has not misbehaved
    assert heads[3, 2, "train"] == heads[3, 3, "train"] == heads[3, 4, "train"] is not None
    assert heads[3, 4, "train"] != heads[3, 5, "train"]
    assert records[-1]["accuracy"] > 0.9


def test_scores_count_devices_that_gave_none(federation):
    grid = MemoryGrid(6)

    def dead_from_round_2_on(message, reply):
        return None if int(message.metadata.group_id) > 2 else reply

    for device in (1, 4):
        grid.node(device).spoil = dead_from_round_2_on
    grid.node(5).spoil = only_in("evaluate", 3, saying("score", accuracy=1e15))
    grid.node(0).spoil = only_in("evaluate", 0, lambda *_: None)
    directory = federation(grid, **EVERYONE)
    records = runs.read_records(directory)
    assert records[0]["unscored"] == [0]
    assert records[0]["scored"] == [1, 2, 3, 4, 5]
    assert records[2]["scored_before"] == [1, 4]
    assert records[3]["scored_before"] == [1, 4, 5]
    for number, last in ((2, {1: 1, 4: 1}), (3, {1: 1, 4: 1, 5: 2})):
        scores = dict(zip(records[number]["scored"], records[number]["device_accuracy"], strict=True))
        for device, when in last.items():
            at = records[when]["scored"].index(device)
            scores[device] = records[when]["device_accuracy"][at]
        assert len(scores) == 6
        assert records[number]["accuracy"] == pytest.approx(np.mean(list(scores.values())))
    assert all(record["accuracy"] <= 1 for record in records)


def test_a_device_that_misbehaves_is_set_aside_and_longer_the_next_time(federation):
    grid = MemoryGrid(6)
    grid.node(2).spoil = saying("report", measured=7)
    rounds = 3 * FIRST_ROUNDS_ASIDE + 2
    directory = federation(grid, **EVERYONE | {"run.rounds": rounds, "run.evaluate_every": 99})
    records = runs.read_records(directory)
    offences = [record["round"] for record in records if record["misbehaved"]]
    assert offences == [0, FIRST_ROUNDS_ASIDE + 1]
    for record in records:
        aside = record["round"] not in offences
        assert (2 not in record["answered"]) == aside
        assert [offence["device"] for offence in record["set_aside"]] == [2] * aside
    assert records[3]["set_aside"][0] == records[0]["misbehaved"][0]
    assert "measured is 7" in records[3]["set_aside"][0]["reason"]


@pytest.mark.heavy
def test_a_server_killed_among_hostile_devices_goes_on_to_the_same_end(federation, tmp_path):
    def hostile(grid):
        grid.node(1).spoil = saying("report", compute_energy_j=1e15)
        grid.node(2).spoil = only_in("evaluate", 2, saying("score", accuracy=2.0))
        grid.node(3).spoil = saying("profile", budget_j=1e-40)
        return grid

    changes = EVERYONE | {"learning.aggregation": "median"}
    whole = federation(hostile(MemoryGrid(6, state_dir=tmp_path / "one")), "whole", **changes)

    def kill(*_):
        raise Killed

    for moment in (("train", 3), ("evaluate", 4), ("query.profile", 6)):
        grid = hostile(MemoryGrid(6, state_dir=tmp_path / f"devices {moment}"))
        grid.node(5).spoil = only_in(*moment, kill)
        with pytest.raises(Killed):
            federation(grid, f"killed {moment}", **changes)
        grid.node(5).spoil = None
        for node in grid.nodes.values():
            node.restart()
        killed = federation(grid, f"killed {moment}", **changes)
        one, other = final_state(whole), final_state(killed)
        for name in ("server/extractor", "queue_j", "spent_j"):
            assert np.array_equal(one[name], other[name]), (moment, name)
        assert [untimed(record) for record in runs.read_records(whole)] == [
            untimed(record) for record in runs.read_records(killed)
        ], moment


def test_a_run_whose_only_devices_misbehave_comes_to_its_end(federation):
    grid = MemoryGrid(2)
    for device in range(2):
        grid.node(device).spoil = saying("report", compute_energy_j=-1.0)
    changes = {"fleet.devices": 2, "policy.name": "all", "run.rounds": 3, "run.evaluate_every": 1}
    directory = federation(grid, wait_s=0.01, **WIDE, **changes)
    assert [record["scheduled"] for record in runs.read_records(directory)] == [[0, 1], [], []]


@pytest.mark.parametrize("rounds", [10, pytest.param(25, marks=pytest.mark.heavy)])
def test_no_tampered_reply_ends_a_federation(federation, rounds):
    """Every third reply of four of eight devices is tampered with, in a new way each time."""
    grid, rng = MemoryGrid(8), np.random.default_rng(3)

    def tamper(_, reply):
        if not reply.has_error() and rng.random() < 1 / 3:
            mutated(rng, reply.content)
        return reply

    for device in range(4):
        grid.node(device).spoil = tamper
    changes = {"fleet.devices": 8, "run.rounds": rounds, "learning.aggregation": "median"}
    directory = federation(grid, **EVERYONE | changes)
    records = runs.read_records(directory)
    assert len(records) == rounds
    assert {offence["message"] for r in records for offence in r["misbehaved"]} >= {"query.profile", "train"}
    assert all({4, 5, 6, 7} <= set(record["answered"]) for record in records)
    for record in records:
        assert all(0 <= energy_j < 1e3 for energy_j in record["compute_energy_j"] + record["upload_energy_j"])
        assert 0 <= record["accuracy"] <= 1
        assert record["loss"] is not None


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "..", "", "a/b", "x" * 65, "a\0b", "run\n"])
def test_a_run_cannot_be_named_out_of_the_state_directory(tmp_path, name):
    context = Context(1, 1, {}, RecordDict(), {})
    with pytest.raises(InputError, match="the run's name is"):
        HeadStore(context, name, tmp_path / "state")
    assert not list(tmp_path.iterdir())
