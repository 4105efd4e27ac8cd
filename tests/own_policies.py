"""Policies as a user would write them, outside of the package."""

import numpy as np

from pmafl.scheduling.given import allocate_fitting


class RoundRobin:
    """Takes turns, `count` devices per round; whoever did not deliver is first in the next round."""

    def __init__(self, count: int = 2):
        self.count = count

    def start(self, outlook):
        return {"next": np.array(0), "owed": np.zeros(outlook.problem.devices, bool)}

    def decide(self, problem, state, rng):
        turn = (state["next"] + np.arange(self.count)) % problem.devices
        owed = np.flatnonzero(state["owed"])
        wanted = np.concatenate([owed, turn[~np.isin(turn, owed)]])
        return allocate_fitting(problem, wanted, "round-robin")

    def observe(self, state, problem, decision, outcome):
        following = (state["next"] + self.count) % problem.devices
        return {"next": following, "owed": decision.scheduled & ~outcome.delivered}


class Diary:
    """Takes everyone that fits, and keeps what it saw in arrays of every kind and layout."""

    def start(self, outlook):
        return self._entry(0, outlook.problem.devices)

    def decide(self, problem, state, rng):
        count = int(state["table"][1, 0]) % problem.devices + 1
        return allocate_fitting(problem, np.arange(count), "diary")

    def observe(self, state, problem, decision, outcome):
        return self._entry(problem.round + 1, problem.devices)

    def _entry(self, number, devices):
        table = np.arange(2.0 * devices).reshape(devices, 2) + number
        return {
            "table": table.T,
            "backwards": np.arange(devices)[::-1],
            "every second": table[:, 1].astype(np.float32)[::2],
            "big-endian": table.astype(">f8"),
            "number": np.array(number, dtype=np.uint8),
            "nothing": np.zeros(0),
            "whether": np.array(number % 2 == 0),
        }
