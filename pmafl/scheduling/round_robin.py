"""All devices in turn, whatever their channels.

H. H. Yang, Z. Liu, T. Q. S. Quek, H. V. Poor, "Scheduling policies for federated learning in wireless
networks", IEEE Trans. Commun. 2020, compares it with random scheduling and proportional fairness.
"""

import numpy as np

from pmafl.scheduling.choosing import able, allocate, check_count
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.policy import Outcome, Outlook, Policy, State
from pmafl.wireless import RoundProblem


def round_robin(count: int = 10) -> Policy:
    """The policy; `count` devices per round. Its state: whose turn is next.

    Who cannot take part is passed over; who did not fit beside the others comes first in the next round.
    """
    check_count(count)

    def start(outlook: Outlook) -> State:
        return {"next": np.array(0)}

    def decide(problem: RoundProblem, state: State, rng: np.random.Generator) -> Decision:
        devices = able(problem)
        waiting = (devices - int(state["next"])) % problem.devices
        return allocate(problem, devices[np.argsort(waiting)][:count], "round-robin")

    def observe(state: State, problem: RoundProblem, decision: Decision, outcome: Outcome) -> State:
        first = int(state["next"])
        turns = (np.flatnonzero(decision.scheduled) - first) % problem.devices + 1
        return {"next": np.array((first + turns.max(initial=0)) % problem.devices)}

    return Policy(decide, start, observe, looks_ahead=False)
