"""Those whose channels are good by their own standards.

H. H. Yang, Z. Liu, T. Q. S. Quek, H. V. Poor, "Scheduling policies for federated learning in wireless
networks", IEEE Trans. Commun. 2020: the largest signal-to-noise ratio of the round over its average. The
transmit power cancels, so what counts is the ratio of the channel gains.
"""

import numpy as np

from pmafl.errors import InputError
from pmafl.scheduling.choosing import able, allocate, best, check_count
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.policy import Outcome, Outlook, Policy, State
from pmafl.wireless import SMALLEST, RoundProblem


def proportional_fair(count: int = 10, window: int = 100) -> Policy:
    """The policy; `count` devices per round. Its state: the mean gains so far.

    The average is over the rounds so far and the mean that is known before the first; from `window` rounds
    on, old ones are forgotten at the rate 1/window, for devices that move. 1 remembers the last round alone.
    """
    check_count(count)
    if window < 1:
        raise InputError(f"window is {window}; it must be 1 or more")

    def start(outlook: Outlook) -> State:
        return {"mean_gain": outlook.problem.channel_gain, "rounds": np.array(1)}

    def decide(problem: RoundProblem, state: State, rng: np.random.Generator) -> Decision:
        ratio = problem.channel_gain / np.maximum(state["mean_gain"], SMALLEST)
        return allocate(problem, best(able(problem), ratio, count), "proportional-fair")

    def observe(state: State, problem: RoundProblem, decision: Decision, outcome: Outcome) -> State:
        rounds = min(int(state["rounds"]) + 1, window)
        mean = state["mean_gain"] + (problem.channel_gain - state["mean_gain"]) / rounds
        return {"mean_gain": mean, "rounds": np.array(rounds)}

    return Policy(decide, start, observe, looks_ahead=False)
