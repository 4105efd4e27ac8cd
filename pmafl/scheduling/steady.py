"""Scheduling at prices of energy that are right from the first round on.

The queues of the paper are prices that have to be learned: they start at 0, overspend until they have grown,
and idle until the excess is paid back. Here the prices come from the long-run problem of a typical round,
solved before the run with the law of the channels; the rounds are those of `dual`. A device that is ahead of
its plan pays more, one that is behind pays less, in proportion to what is left for the rounds to come, and no
device ever exceeds its budget. There is nothing to tune: prices are in samples, so the paper's V is gone.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from pmafl.errors import InputError
from pmafl.progress import Progress, ignore, report
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.dual import dual
from pmafl.scheduling.policy import Outcome, Outlook, Policy, State
from pmafl.wireless import LARGEST, Array, RoundProblem

TOLERANCE = 0.01  # of a round's objective; a finer choice at prices that are estimates brings nothing
LEAST_LEFT = 1e-9  # of a budget; what divides must not be 0


def steady() -> Policy:
    """The policy. Its state: planned prices, what each device may spend in all rounds, and what it has spent.

    It decides a round like `dual`, with the price of a joule in samples in the place of the queue, and V = 1.
    """
    plain = dual(TOLERANCE)

    def decide(problem: RoundProblem, state: State, rng: np.random.Generator) -> Decision:
        return replace(plain(_priced(problem, state), rng), policy="steady")

    return Policy(decide, start, _observe, priced=_priced)


def start(outlook: Outlook) -> State:
    """The plan for a run."""
    if not outlook.rounds:
        raise InputError(
            "plans ahead, and needs the number of rounds, the mean channels and the distribution of their "
            "fading; a problem in JSON has them in its outlook"
        )
    if np.isnan(outlook.budget_j).any():
        device = int(np.isnan(outlook.budget_j).argmax())
        raise InputError(f"device {device} has no energy budget; give every device its budget_j")
    return {
        "price": plan_prices(outlook, partial(report, "prices of energy")),
        "budget_j": outlook.budget_j,
        "total_j": outlook.rounds * outlook.budget_j,
        "spent_j": np.zeros(outlook.problem.devices),
        "rounds": np.array(outlook.rounds),
    }


def _priced(problem: RoundProblem, state: State) -> RoundProblem:
    """The problem with prices in the place of queues, and what is left of the budgets as caps."""
    state = _with_budgets(state, problem)
    left_j = np.maximum(state["total_j"] - state["spent_j"], 0.0)
    return replace(
        problem,
        tradeoff=1.0,
        queue_j=prices(state, problem.round),
        energy_cap_j=np.minimum(problem.energy_cap_j, left_j),
    )


def _observe(state: State, problem: RoundProblem, decision: Decision, outcome: Outcome) -> State:
    state = _with_budgets(state, problem)
    return {**state, "spent_j": state["spent_j"] + outcome.energy_j}


def _with_budgets(state: State, problem: RoundProblem) -> State:
    """The state with the budgets that devices have now: a new one holds for the rounds to come."""
    changed = problem.budget_j != state["budget_j"]
    if not changed.any():
        return state
    to_come = int(state["rounds"]) - problem.round
    more_j = np.where(changed, to_come * (problem.budget_j - state["budget_j"]), 0.0)
    return {**state, "budget_j": problem.budget_j, "total_j": state["total_j"] + more_j}


def prices(state: State, rounds_done: int) -> Array:
    r"""Prices that rise and fall so that budgets last.

    .. math:: \mu_k \, \frac{(T - t) \bar E_k}{T \bar E_k - E_k}

    where a device k has spent E in t of T rounds: planned for the rounds to come, over what is left for them.
    """
    to_come = max(int(state["rounds"]) - rounds_done, 1)  # a run may be made longer than was planned
    planned_j = to_come * state["budget_j"]
    left_j = np.maximum(state["total_j"] - state["spent_j"], LEAST_LEFT * state["total_j"])
    now: Array = np.minimum(state["price"] * planned_j / left_j, LARGEST)  # nobody buys at either price
    return now


def plan_prices(outlook: Outlook, progress: Progress = ignore) -> Array:
    """What a joule of each device is worth if channels follow their law, in samples.

    One price holds for the band of all rounds: among many devices it hardly moves from round to round. Then
    only each device's own channel matters, and equal devices have equal prices.
    """
    from pmafl.scheduling.fluid import plan  # SciPy's special functions are slow to import

    return plan(outlook.problem, outlook.fading, outlook.budget_j, progress).energy_price
