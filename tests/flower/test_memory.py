"""Policies and algorithms that remember, in a federation: as in the simulator, and across a killed server."""

import pytest

from pmafl import runs
from pmafl.settings import load
from tests.flower.memory_grid import MemoryGrid, final_state
from tests.flower.test_server import METRICS, Killed, assert_equal_on_the_server, only_in, untimed
from tests.runs.test_memory import ALGORITHMS_OF_OTHERS, OWN


def kill(*_):
    raise Killed


def killed_and_restarted(federation, grid, name, moment, **changes):
    """A federation whose server is killed, and all of whose processes then start again."""
    spoil = grid.node(4).spoil
    grid.node(4).spoil = only_in(*moment, kill)
    with pytest.raises(Killed):
        federation(grid, name, **changes)
    grid.node(4).spoil = spoil
    for node in grid.nodes.values():
        node.restart()
    return federation(grid, name, **changes)


def assert_same_end(one, other):
    assert_equal_on_the_server(final_state(one), final_state(other))
    assert [untimed(record) for record in runs.read_records(one)] == [
        untimed(record) for record in runs.read_records(other)
    ]


@pytest.mark.parametrize("name", ALGORITHMS_OF_OTHERS)
def test_policies_and_algorithms_of_others_give_the_simulation(federation, tmp_path, name):
    directory = federation(MemoryGrid(6), **OWN | ALGORITHMS_OF_OTHERS[name])
    runs.create(tmp_path / "simulated", load(directory))
    runs.execute(tmp_path / "simulated")
    one, other = final_state(directory), final_state(tmp_path / "simulated")
    assert_equal_on_the_server(one, other)
    assert {"policy/next", "policy/owed", "server/model"} < one.keys()
    for real, simulated in zip(*map(runs.read_records, (directory, tmp_path / "simulated")), strict=True):
        for key in simulated.keys() - METRICS:
            assert real[key] == simulated[key], key


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALGORITHMS_OF_OTHERS)
def test_policies_and_algorithms_of_others_outlive_a_server(federation, tmp_path, name):
    """Device 5 fails in round 1, and what the policy owes it is remembered."""

    def grid(where):
        made = MemoryGrid(6, state_dir=tmp_path / f"devices of {where}")
        made.node(5).spoil = only_in("train", 1, lambda *_: None)
        return made

    changes = OWN | ALGORITHMS_OF_OTHERS[name] | {"cell.bandwidth_hz": 1e9}
    straight = federation(grid("one"), "straight", **changes)
    records = runs.read_records(straight)
    assert records[1]["failed"] == [5]
    assert 5 in records[2]["scheduled"]
    for moment in (("query.profile", 2), ("train", 2), ("train", 4)):
        where = f"killed {moment}"
        assert_same_end(straight, killed_and_restarted(federation, grid(where), where, moment, **changes))


BUDGET_J = {0: 0.1, 3: 0.02}  # of device 2, from a round on


def with_a_budget_that_changes(grid):
    def change(message, reply):
        if "profile" in reply.content:
            number = int(message.metadata.group_id) - 1
            reply.content["profile"]["budget_j"] = BUDGET_J[
                max(since for since in BUDGET_J if since <= number)
            ]
        return reply

    grid.node(2).spoil = change
    return grid


def test_steady_follows_a_budget_that_changes_across_a_restart(federation, tmp_path):
    changes = {"policy.name": "steady", "run.rounds": 6}
    constant = federation(MemoryGrid(6), "constant", **changes)
    straight = federation(
        with_a_budget_that_changes(MemoryGrid(6, state_dir=tmp_path / "one")), "straight", **changes
    )
    state = final_state(straight)
    assert state["policy/budget_j"][2] == state["devices/budget_j"][2] == BUDGET_J[3]
    assert state["policy/total_j"][2] == pytest.approx(3 * BUDGET_J[0] + 3 * BUDGET_J[3])
    assert state["spent_j"][2] <= state["policy/total_j"][2] * (1 + 1e-9)
    assert final_state(constant)["policy/total_j"][2] == pytest.approx(6 * BUDGET_J[0])
    for moment in (("query.profile", 3), ("train", 3), ("query.profile", 5)):
        where = f"killed {moment}"
        grid = with_a_budget_that_changes(MemoryGrid(6, state_dir=tmp_path / f"devices of {where}"))
        assert_same_end(straight, killed_and_restarted(federation, grid, where, moment, **changes))


def test_a_budget_that_was_taken_back_while_the_server_was_down_is_forgotten(federation, tmp_path):
    """The killed server had heard of it, and written it down, in a round that never came to its end."""
    grid = MemoryGrid(6, state_dir=tmp_path / "devices")
    grid.node(1).spoil = only_in("query.profile", 2, lambda _, reply: _saying(reply, 7.5))
    grid.node(4).spoil = only_in("train", 2, kill)
    with pytest.raises(Killed):
        federation(grid, "run")
    assert runs.open_run(tmp_path / "run").budget_j[1] == 7.5
    grid.node(1).spoil = grid.node(4).spoil = None
    directory = federation(grid, "run")
    assert runs.open_run(directory).budget_j[1] == pytest.approx(0.1)
    assert runs.read_summary(directory)["budget_j"] == pytest.approx(0.1)


def _saying(reply, budget_j):
    reply.content["profile"]["budget_j"] = budget_j
    return reply
