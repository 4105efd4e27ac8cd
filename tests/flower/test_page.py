"""The page of a federation, followed while its rounds come."""

import numpy as np
import pytest

from pmafl import runs
from pmafl.page.live import Follower
from tests.flower.memory_grid import MemoryGrid


class WatchedGrid(MemoryGrid):
    """Somebody looks at the server's directory whenever it sends something."""

    def __init__(self, devices, directory):
        super().__init__(devices)
        self.directory, self.follower, self.seen = directory, None, []

    def push_messages(self, messages):
        if (self.directory / "settings.toml").is_file():
            self.follower = self.follower or Follower(self.directory)
            self.follower.look()
            self.seen.append(self.follower.ends[-1])
        return super().push_messages(messages)


def test_a_federation_is_followed_round_by_round(federation, tmp_path):
    grid = WatchedGrid(6, tmp_path / "federation")
    grid.node(5).online = False
    directory = federation(grid, **{"run.evaluate_every": 2, "run.rounds": 4})
    assert set(grid.seen) == {0, 1, 2, 3}
    grid.follower.look()
    page, rows = grid.follower.page(), runs.read_records(directory)
    assert page["head"]["federation"]
    assert "a federation of real devices" in page["head"]["line"]
    assert (page["rounds"], page["finished"]) == (4, True)
    parts = [page["part"], *page["more"]]
    assert np.concatenate([part["frames"] for part in parts]).tolist() == [0, 1, 2, 3]
    turns = np.concatenate([part["turns"]["device"] for part in parts])
    assert turns.tolist() == [device for row in rows for device in row["scheduled"]]
    gains = np.concatenate([part["gain"]["rounds"] for part in parts])
    assert gains.tolist() == [row["round"] for row in rows if row["accuracy"] is not None]
    words = dict(zip(*parts[0]["reasons"][0][1], strict=True))
    assert words[5] == "did not answer before the decision"


def test_what_devices_say_of_themselves_is_on_the_page(federation, tmp_path):
    """Also where somebody looked before they did: it is written after the settings."""
    directory = federation(MemoryGrid(6), **{"run.rounds": 1})
    told = (directory / runs.FEDERATION).read_bytes()
    (directory / runs.FEDERATION).unlink()
    follower = Follower(directory)
    before = follower.page()
    assert not before["head"]["federation"]
    (directory / runs.FEDERATION).write_bytes(
        told.replace(b'"budget_j": [\n      0.1', b'"budget_j": [\n      0.7')
    )
    follower.look()
    assert follower.since(before["records"], 1) is None
    assert follower.page()["head"]["federation"]
    assert follower.page()["head"]["devices"]["budget_j"][0] == pytest.approx(0.7)
