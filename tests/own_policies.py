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
