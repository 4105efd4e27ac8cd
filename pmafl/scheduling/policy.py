"""What a policy is: whom to schedule in a round, and what it has to remember for the next one.

A plain function of the round problem and a random generator is a whole policy. One that plans or remembers
has three functions: `start` makes its state from what is known before the first round, `decide` decides a
round, `observe` takes in what came of it. A state is a mapping from names to arrays and nothing else: it is
saved with every checkpoint, so a run that was stopped goes on as if it had not been.

    class RoundRobin:
        def __init__(self, count=10):
            self.count = count

        def start(self, outlook):
            return {"next": np.array(0)}

        def decide(self, problem, state, rng):
            wanted = (state["next"] + np.arange(self.count)) % problem.devices
            return allocate_fitting(problem, wanted, "round-robin")

        def observe(self, state, problem, decision, outcome):
            return {"next": (state["next"] + self.count) % problem.devices}
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl.brief import brief
from pmafl.errors import InputError
from pmafl.scheduling.decision import Decision
from pmafl.wireless import Array, Mask, RoundProblem

State = Mapping[str, NDArray[Any]]


@brief
@dataclass(frozen=True, eq=False)
class Outlook:
    """What the server knows before the first round.

    Attributes:
        problem: a round with every channel at its mean.
        fading: equally likely factors of the channels: their distribution.
        rounds: how many there will be; 0 where nobody knows.
    """

    problem: RoundProblem
    fading: Array
    rounds: int

    @property
    def budget_j(self) -> Array:
        """Energy budgets per round."""
        return self.problem.budget_j


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a round, one entry per device.

    Attributes:
        delivered: whose upload arrived.
        energy_j: what each device was charged.
        loss: training loss at the weights that the device received; NaN where nothing was reported.
    """

    delivered: Mask
    energy_j: Array
    loss: Array


def _nothing(outlook: Outlook) -> State:
    return {}


def _unchanged(state: State, problem: RoundProblem, decision: Decision, outcome: Outcome) -> State:
    return state


def _as_it_is(problem: RoundProblem, state: State) -> RoundProblem:
    return problem


@dataclass(frozen=True)
class Policy:
    """A policy as the round loop uses it.

    `start` makes its state from what is known before the first round, `decide` decides a round, `observe`
    takes in what came of it. A plain function of the problem and a generator is `decide` alone.

    `looks_ahead` says whether `start` uses what it is told of the rounds to come, and not only its devices;
    left out, a policy that has a `start` is taken to do so. `priced` gives the problem at the policy's own
    prices, if it does not weigh energy by the queues: by it people are told why devices were left out.
    """

    decide: Callable[[RoundProblem, State, np.random.Generator], Decision]
    start: Callable[[Outlook], State] = _nothing
    observe: Callable[[State, RoundProblem, Decision, Outcome], State] = _unchanged
    looks_ahead: bool | None = None
    priced: Callable[[RoundProblem, State], RoundProblem] = _as_it_is

    @property
    def has_prices(self) -> bool:
        """Whether it weighs energy by prices of its own."""
        return self.priced is not _as_it_is

    @property
    def plans(self) -> bool:
        """Whether it looks ahead before the first round."""
        return self.start is not _nothing if self.looks_ahead is None else self.looks_ahead

    @property
    def remembers(self) -> bool:
        """Whether its state may change from round to round."""
        return self.start is not _nothing or self.observe is not _unchanged

    def __call__(self, problem: RoundProblem, rng: np.random.Generator) -> Decision:
        """The decision of a policy without memory."""
        return self.decide(problem, {}, rng)


def as_policy(made: Any, name: str) -> Policy:
    """A policy from a plain function, or from what has `decide` and perhaps the other functions."""
    if isinstance(made, Policy):
        return made
    if callable(decide := getattr(made, "decide", None)):
        optional = ("start", "observe", "priced", "looks_ahead")
        parts = {part: getattr(made, part) for part in optional if hasattr(made, part)}
        return Policy(decide, **parts)
    if callable(made):
        return Policy(lambda problem, state, rng: made(problem, rng))
    raise InputError(
        f"policy {name!r} made a {type(made).__name__}; it must be a function of a problem and a generator, "
        "or have decide(problem, state, rng)"
    )
