"""The power of the server fails at any moment: the federation goes on, to the same end."""

import contextlib
import random

import numpy as np
import pytest

from pmafl import files, runs
from pmafl.errors import InputError
from tests.flower.memory_grid import MemoryGrid, final_state
from tests.runs.power import Power, PowerCut

SMALL = {"run.rounds": 4, "run.evaluate_every": 2}


def untimed(directory):
    records = runs.read_records(directory)
    return [{key: value for key, value in record.items() if key != "train_time_s"} for record in records]


@pytest.mark.heavy
def test_thirty_power_cuts_of_a_server_change_nothing(federation, tmp_path, monkeypatch):
    counted = Power(tmp_path / "counted")
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", counted)
        whole = federation(MemoryGrid(6, state_dir=tmp_path / "devices"), "counted/run", **SMALL)
    moments = random.Random(0)
    for moment in range(30):
        name = f"cut-{moment}"
        grid = MemoryGrid(6, state_dir=tmp_path / f"devices-{moment}")
        (tmp_path / name).mkdir()
        power = Power(tmp_path / name, moments.randint(1, counted.calls - 1), moment)
        with monkeypatch.context() as patch, contextlib.suppress(PowerCut):
            patch.setattr(files, "os", power)
            federation(grid, f"{name}/run", **SMALL)
        power.come_back()
        for node in grid.nodes.values():
            node.restart()
        directory = federation(grid, f"{name}/run", **SMALL)
        assert np.array_equal(
            final_state(directory)["server/extractor"], final_state(whole)["server/extractor"]
        )
        assert untimed(directory) == untimed(whole)


def stopped_after(federation, grid, name, number):
    """A federation whose server stopped after some rounds."""

    class Stop(BaseException):
        pass

    def stop(message, reply):
        if int(message.metadata.group_id) == number + 1:
            raise Stop
        return reply

    grid.node(0).spoil = stop
    with pytest.raises(Stop):
        federation(grid, name, **SMALL)
    grid.node(0).spoil = None


def test_a_server_that_would_go_back_too_far_is_refused(federation, tmp_path):
    """Devices remember one round: going back further would begin from later heads, without a word."""
    grid = MemoryGrid(6, state_dir=tmp_path / "devices")
    stopped_after(federation, grid, "run", 3)
    newest = sorted((tmp_path / "run" / "checkpoint").glob("state-*"))[-1]
    content = newest.read_bytes()
    newest.write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"devices remember one round, so a run that was in round 3 cannot"):
        federation(grid, "run", **SMALL)
    newest.write_bytes(content)
    directory = federation(grid, "run", **SMALL)
    whole = federation(MemoryGrid(6, state_dir=tmp_path / "others"), "whole", **SMALL)
    assert np.array_equal(final_state(directory)["server/extractor"], final_state(whole)["server/extractor"])


def test_what_devices_said_belongs_to_one_run(federation, tmp_path):
    grid = MemoryGrid(6, state_dir=tmp_path / "devices")
    for name in ("one", "other"):
        stopped_after(federation, grid, name, 2)
    known = tmp_path / "one" / "federation.json"
    mine = known.read_text()
    known.write_text((tmp_path / "other" / "federation.json").read_text())
    with pytest.raises(InputError, match=r"federation\.json belongs to another run"):
        federation(grid, "one", **SMALL)
    known.write_text(mine.replace("0.1", "0.7", 1))
    with pytest.raises(InputError, match=r"federation\.json is damaged"):
        federation(grid, "one", **SMALL)
