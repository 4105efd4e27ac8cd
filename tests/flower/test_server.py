import json

import numpy as np
import pytest
from flwr.app import Array, Error, Message, MetricRecord

from pmafl import runs
from pmafl.errors import InputError, NoAnswer
from pmafl.learning.algorithms import ALGORITHMS
from pmafl.plots import plot_run
from pmafl.settings import load
from pmafl.theory.assessment import assess
from tests.flower.memory_grid import MemoryGrid, final_state, replay

METRICS = {"accuracy", "loss", "accuracy_std", "worst_tenth_accuracy", "global_accuracy"}


@pytest.mark.parametrize(
    "changes",
    [
        {"policy.name": "dual", "run.evaluate_every": 2},
        {"policy.name": "uniform", "policy.options.count": 3, "learning.algorithm": "fedavg"},
        {"learning.algorithm": "fedrep", "learning.batch_size": 8, "run.rounds": 3},
        {"learning.algorithm": "local", "run.rounds": 2},
        {"learning.upload_bits_per_parameter": 8, "policy.hard_budget": True, "run.rounds": 3},
        {"learning.aggregation": "median", "learning.algorithm": "fedprox", "run.rounds": 3},
        {"learning.aggregation": "trimmed-mean", "learning.upload_bits_per_parameter": 8, "run.rounds": 3},
        {"learning.aggregation": "clipped-mean", "learning.algorithm": "local", "run.rounds": 2},
        {"cell.channel": "shadowing", "cell.options.correlation": 0.5, "run.rounds": 4},
        {"learning.upload": "top-k", "learning.upload_options.share": 0.1, "run.rounds": 4},
        {"learning.upload": "qsgd", "learning.algorithm": "fedavg", "run.rounds": 3},
        {"learning.upload": "sign", "learning.aggregation": "median", "run.rounds": 3},
        {"learning.upload": "random-k", "policy.name": "round-robin", "run.rounds": 3},
    ],
    ids=lambda changes: "-".join(str(value) for value in changes.values()),
)
def test_a_federation_is_the_simulation(federation, tmp_path, changes):
    assert_is_the_simulation(federation, tmp_path, changes)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_in_a_federation_is_the_simulation(federation, tmp_path, name):
    """With mini-batches, and tuning before tests: both sides draw the same orders."""
    network = "tests.learning.user_models:small_and_normalised"
    learning = {"algorithm": name, "model": network, "shared_layers": 1, "batch_size": 8, "iterations": 2}
    policy = {"policy.name": "uniform", "policy.options.count": 3}
    rounds = {"run.rounds": 3, "run.evaluate_every": 3}
    changes = {f"learning.{key}": value for key, value in learning.items()} | policy | rounds
    assert_is_the_simulation(federation, tmp_path, changes)


def assert_is_the_simulation(federation, tmp_path, changes):
    directory = federation(MemoryGrid(6), **changes)
    runs.create(tmp_path / "simulated", load(directory))
    runs.execute(tmp_path / "simulated")
    one, other = (final_state(where) for where in (directory, tmp_path / "simulated"))
    assert_equal_on_the_server(one, other)
    for real, simulated in zip(*map(runs.read_records, (directory, tmp_path / "simulated")), strict=True):
        assert simulated.keys() < real.keys()
        for name in simulated.keys() - METRICS:
            assert real[name] == simulated[name], name
        if simulated["accuracy"] is not None:
            assert real["accuracy"] == pytest.approx(simulated["accuracy"])
            assert real["loss"] == pytest.approx(simulated["loss"], rel=1e-5)


def assert_equal_on_the_server(one, other):
    """All that is saved but what each side's devices remember and hold."""

    def mine(state):
        return {name for name in state if not name.startswith(("devices/", "head_"))}

    assert mine(one) == mine(other)
    for name in mine(one):
        assert np.array_equal(one[name], other[name], equal_nan=True), name


def reply_with(message, **records):
    content = message.content.copy()
    for name, record in records.items():
        content[name] = record
    return Message(content, reply_to=message)


def with_array(**changes):
    """Spoils the weights that a device uploads."""

    def spoil(_, reply):
        for name, change in changes.items():
            array = reply.content["weights"]["extractor/0"]
            setattr(array, name, change(array))
        return reply

    return spoil


def values(change):
    return with_array(data=lambda array: change(np.frombuffer(array.data, np.float16).copy()).tobytes())


def nowhere_finite(array):
    array[7] = np.nan
    return array


def overflowed(array):
    array[-1] = np.inf
    return array


def extra_array(_, reply):
    reply.content["weights"]["extractor/1"] = Array(np.zeros(3))
    return reply


def extra_record(_, reply):
    reply.content["more"] = MetricRecord({"x": 1.0})
    return reply


def endless_energy(_, reply):
    reply.content["report"]["compute_energy_j"] = float("nan")
    return reply


def no_report(_, reply):
    del reply.content["report"]
    return reply


def broken_app(message, _):
    return Message(Error(2, "ZeroDivisionError"), reply_to=message)


def silent(*_):
    return None


FAULTS = {
    "NaN": values(nowhere_finite),
    "infinity": values(overflowed),
    "too-short": values(lambda array: array[:-1]),
    "absurdly-large": values(lambda array: np.tile(array, 100)),
    "empty": values(lambda array: array[:0]),
    "other-type": with_array(dtype=lambda _: "<f8"),
    "other-shape": with_array(shape=lambda array: (*array.shape, 1)),
    "pickled": with_array(stype=lambda _: "numpy.ndarray"),
    "extra-array": extra_array,
    "extra-record": extra_record,
    "energy-NaN": endless_energy,
    "no-report": no_report,
    "exception": broken_app,
    "silent": silent,
}
HONEST_FAULTS = 2  # the last ones: whoever sends nothing has not misbehaved


def only_in(kind, number, spoil):
    """A fault in one round's messages of one kind."""

    def guarded(message, reply):
        metadata = message.metadata
        hit = metadata.message_type == kind and metadata.group_id == str(number + 1)
        return spoil(message, reply) if hit else reply

    return guarded


def test_a_round_goes_on_without_devices_that_fail(federation):
    grid = MemoryGrid(len(FAULTS) + 2)
    for device, fault in enumerate(FAULTS.values()):
        grid.node(device).spoil = only_in("train", 1, fault)
    everyone = {"policy.name": "all", "fleet.devices": len(FAULTS) + 2, "cell.bandwidth_hz": 1e9}
    directory = federation(grid, **everyone, **{"run.rounds": 3})
    records = runs.read_records(directory)
    missed = set(FAULTS) - {list(FAULTS)[device] for device in records[1]["failed"]}
    assert not missed
    assert [len(record["failed"]) for record in records] == [0, len(FAULTS), 0]
    honest = list(range(len(FAULTS) - HONEST_FAULTS, len(FAULTS) + 2))
    assert [record["answered"] for record in records[1:]] == [list(range(len(FAULTS) + 2)), honest]
    assert [offence["device"] for offence in records[2]["set_aside"]] == list(range(honest[0]))
    assert records[1]["upload_bytes"][: len(FAULTS)] == [None] * len(FAULTS)
    share = 2 / (len(FAULTS) + 2)
    assert records[1]["scheduled_samples"] == pytest.approx(share * records[0]["scheduled_samples"])
    trained = [(1, device) for device in range(len(FAULTS))]
    assert np.array_equal(final_state(directory)["server/extractor"], replay(directory, also_trained=trained))


def test_a_device_that_failed_is_charged_what_was_planned(federation):
    grid = MemoryGrid(6)
    grid.node(2).spoil = only_in("train", 1, silent)
    sound, hurt = (
        federation(each, name, **{"policy.name": "all", "run.rounds": 2, "cell.bandwidth_hz": 1e9})
        for each, name in ((MemoryGrid(6), "sound"), (grid, "hurt"))
    )
    for name in ("queue_j", "spent_j"):
        assert np.array_equal(final_state(sound)[name], final_state(hurt)[name])
    one, other = (runs.read_records(where)[1] for where in (sound, hurt))
    assert one["compute_energy_j"] == other["compute_energy_j"]


def test_a_hung_device_is_not_waited_for_nor_scheduled_until_it_answers(federation):
    grid = MemoryGrid(6)
    node = grid.node(4)

    def hung_from_round_1_to_3(message, reply):
        return None if 1 <= int(message.metadata.group_id) - 1 <= 3 else reply

    node.spoil = hung_from_round_1_to_3
    directory = federation(grid, **{"policy.name": "all", "run.rounds": 6, "cell.bandwidth_hz": 1e9})
    records = runs.read_records(directory)
    assert [4 in record["scheduled"] for record in records] == [True, False, False, False, False, False]
    assert [4 in record["answered"] for record in records] == [True, False, False, False, False, False]
    asked = [(kind, number) for kind, number in node.heard if number > 0]
    assert asked == [("query.profile", 1), ("query.profile", 1)]  # and then the ping that nobody waits for


def test_a_device_comes_back_when_it_has_answered(federation):
    grid = MemoryGrid(6)
    node, late = grid.node(4), []

    def busy_in_round_1(message, reply):
        if message.metadata.message_type == "train" and message.metadata.group_id == "2":
            late.append(message)
            return None
        if late and message.metadata.group_id == "2":  # the ping stays unanswered until round 3
            late.append((message.metadata.message_id, reply))
            return None
        return reply

    def wake_up(message, reply):
        if message.metadata.group_id == "3" and late and isinstance(late[-1], tuple):
            number, answer = late.pop()
            grid.replies[number] = answer
        return reply

    node.spoil = busy_in_round_1
    grid.node(0).spoil = wake_up
    directory = federation(grid, **{"policy.name": "all", "run.rounds": 5, "cell.bandwidth_hz": 1e9})
    records = runs.read_records(directory)
    assert [4 in record["scheduled"] for record in records] == [True, True, False, True, True]
    assert records[1]["failed"] == [4]
    assert np.array_equal(
        final_state(directory)["server/extractor"], replay(directory, also_trained=[(1, 4)])
    )


def test_a_device_that_left_and_came_back_has_its_head(federation, tmp_path):
    grid = MemoryGrid(6, state_dir=tmp_path / "devices")

    def leave_and_return(message, reply):
        number = int(message.metadata.group_id) - 1
        grid.node(3).online = number != 2
        if number == 2:
            grid.node(3).restart()
        return reply

    grid.node(0).spoil = leave_and_return
    directory = federation(grid, **{"policy.name": "all", "cell.bandwidth_hz": 1e9})
    records = runs.read_records(directory)
    assert [3 in record["scheduled"] for record in records] == [True, True, True, False, True]
    assert records[2]["failed"] == [3]
    assert np.array_equal(final_state(directory)["server/extractor"], replay(directory))


class Killed(BaseException):
    pass


def test_a_server_killed_in_the_middle_of_a_round_goes_on_to_the_same_end(federation, tmp_path):
    whole = federation(MemoryGrid(6, state_dir=tmp_path / "one"), "whole")

    def kill(*_):
        raise Killed

    for moment in (("query.profile", 2), ("train", 2), ("evaluate", 4)):
        grid = MemoryGrid(6, state_dir=tmp_path / f"devices {moment}")
        grid.node(3).spoil = only_in(*moment, kill)
        with pytest.raises(Killed):
            federation(grid, f"killed {moment}")
        grid.node(3).spoil = None
        for node in grid.nodes.values():
            node.restart()
        killed = federation(grid, f"killed {moment}")
        one, other = final_state(whole), final_state(killed)
        assert np.array_equal(one["server/extractor"], other["server/extractor"]), moment
        assert [untimed(record) for record in runs.read_records(whole)] == [
            untimed(record) for record in runs.read_records(killed)
        ], moment


def untimed(record):
    return {key: value for key, value in record.items() if key != "train_time_s"}


def test_of_two_nodes_that_claim_one_device_the_first_keeps_it(federation):
    grid = MemoryGrid(6)
    twin = MemoryGrid(6).node(5)
    directory = federation(grid, "one")
    grid = MemoryGrid(6)
    grid.nodes[1] = twin  # a smaller number than any other
    twin.online = False

    def join(message, reply):
        twin.online = True
        return reply

    grid.node(0).spoil = only_in("query.profile", 1, join)
    other = federation(grid, "other")
    assert {kind for kind, _ in twin.heard} == {"query.profile"}
    assert np.array_equal(final_state(directory)["server/extractor"], final_state(other)["server/extractor"])


def test_a_late_device_joins(federation):
    grid = MemoryGrid(6)
    grid.node(1).online = False

    def join(message, reply):
        grid.node(1).online = True
        return reply

    grid.node(0).spoil = only_in("query.profile", 2, join)
    directory = federation(grid, wait_s=0.1, **{"policy.name": "all", "cell.bandwidth_hz": 1e9})
    joined = [1 in record["scheduled"] for record in runs.read_records(directory)]
    assert joined == [False, False, False, True, True]


def test_what_devices_say_about_themselves_outlives_the_server(federation):
    grid = MemoryGrid(6)
    grid.node(2).config["budget-j"] = 7.5
    directory = federation(grid)
    assert json.loads((directory / "federation.json").read_text())["fleet"]["budget_j"][2] == 7.5
    assert runs.read_summary(directory)["budget_j"] == pytest.approx((5 * 0.1 + 7.5) / 6)


def test_without_devices_the_run_stops_and_can_go_on(federation):
    grid = MemoryGrid(6)
    for node in grid.nodes.values():
        node.online = False
    with pytest.raises(NoAnswer, match=r"round 0: no device has answered for 0\.1 s"):
        federation(grid, wait_s=0.1)
    directory = federation(MemoryGrid(6))
    assert len(runs.read_records(directory)) == 5


def test_a_directory_with_another_run_is_refused(federation, tmp_path, tiny):
    federation(MemoryGrid(6))
    with pytest.raises(InputError, match="other settings"):
        federation(MemoryGrid(6), **{"run.seed": 9})
    with pytest.raises(InputError, match="nothing to do"):
        federation(MemoryGrid(6), "new", **{"run.learning": "none"})


def test_a_finished_federation_is_not_run_again(federation):
    directory = federation(MemoryGrid(6))
    before = (directory / "rounds.jsonl").read_bytes()
    federation(MemoryGrid(0))
    assert (directory / "rounds.jsonl").read_bytes() == before


@pytest.mark.heavy
def test_plots_and_the_bound_work_on_a_federation(federation):
    grid = MemoryGrid(6)
    grid.node(2).spoil = only_in("train", 1, silent)
    grid.node(3).config["budget-j"] = 7.5
    directory = federation(grid, **{"policy.name": "all", "run.rounds": 3, "cell.bandwidth_hz": 1e9})
    assert all(path.stat().st_size > 1000 for path in plot_run(directory))
    assert runs.open_run(directory).budget_j.tolist() == pytest.approx([0.1, 0.1, 0.1, 7.5, 0.1, 0.1])
    share = assess(directory, points=2, probed=1).promises[0].scheduled_share
    assert share[0] == share[2] == 1
    assert share[1] < 0.9  # without the device whose update never arrived
    (directory / "summary.json").unlink()
    with pytest.raises(InputError, match="use flwr run"):
        runs.execute(directory)
