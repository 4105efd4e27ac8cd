"""The virtual queues: how far each device's spending runs ahead of its energy budget."""

from dataclasses import dataclass

import numpy as np

from pmafl.brief import brief
from pmafl.wireless import LARGEST, SMALLEST, Array


@brief
@dataclass(frozen=True, eq=False)
class QueueState:
    """What the next round needs to know about energy, one entry per device."""

    queue_j: Array  # spent beyond the budget so far, never below 0: q
    spent_j: Array  # spent in total


def start(devices: int, start_j: float = 0.0) -> QueueState:
    """Before the first round. The paper starts at 0.

    A start above 0 (Neely's place-holder backlog) makes energy count from the first round on, so that
    nobody burns twenty budgets at once; the queues then settle around the same level.
    """
    return QueueState(np.full(devices, float(start_j)), np.zeros(devices))


def advance(state: QueueState, energy_j: Array, budget_j: Array) -> QueueState:
    """After a round: q <- max(q + E - budget, 0), with E = 0 for devices that were not scheduled.

    A queue stays within what a round problem takes: from there on its device is out of the question anyway.
    """
    queue_j = np.minimum(state.queue_j + energy_j - budget_j, LARGEST)
    return QueueState(np.where(queue_j >= SMALLEST, queue_j, 0.0), state.spent_j + energy_j)


def remaining_j(state: QueueState, budget_j: Array, rounds: int) -> Array:
    """What is left of the budget of all rounds: the cap on a round's energy under a hard budget."""
    return np.maximum(budget_j * rounds - state.spent_j, 0.0)
