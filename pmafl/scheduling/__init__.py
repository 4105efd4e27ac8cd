"""Which devices take part in a round: one policy per file, found here by name or at ``package.module:name``.

A policy is a function of the round problem and a random generator that gives a `Decision`; what plans or
remembers has `start`, `decide` and `observe` (see `Policy`). A user's own is one function and one line,
``POLICIES.register("mine", function)``, or its path instead of a name:

    def strongest(problem, rng):
        chosen = problem.channel_gain >= np.quantile(problem.channel_gain, 0.9)
        return allocate_given(problem, chosen, "strongest")

A function whose first parameter is called `problem` is a policy. Anything else is called with the options of
the settings and must give one.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pmafl.errors import InputError
from pmafl.registry import Registry, check_options, make
from pmafl.scheduling.best_channel import best_channel
from pmafl.scheduling.checking import ask, begin, tell
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.dual import dual
from pmafl.scheduling.everyone import choose_everyone, everyone
from pmafl.scheduling.exchange import BadProblem, Question, answer, read_question, write
from pmafl.scheduling.exhaustive import exhaustive
from pmafl.scheduling.fedcs import fedcs
from pmafl.scheduling.given import allocate_fitting, allocate_given, allocate_without_limits
from pmafl.scheduling.ocean import ocean
from pmafl.scheduling.oldest import oldest
from pmafl.scheduling.oort_like import oort_like
from pmafl.scheduling.policy import Outcome, Outlook, Policy, State, as_policy
from pmafl.scheduling.power_of_choice import power_of_choice
from pmafl.scheduling.proportional_fair import proportional_fair
from pmafl.scheduling.queues import QueueState
from pmafl.scheduling.reasons import left_out
from pmafl.scheduling.round_robin import round_robin
from pmafl.scheduling.rs_wel import rs_wel
from pmafl.scheduling.schema import definitions, schema
from pmafl.scheduling.set_expansion import set_expansion, sets_solved
from pmafl.scheduling.steady import steady
from pmafl.scheduling.uniform import choose_uniformly, uniform
from pmafl.wireless import Index

__all__ = [
    "POLICIES",
    "BadProblem",
    "Decision",
    "Outcome",
    "Outlook",
    "Policy",
    "Question",
    "QueueState",
    "State",
    "allocate_fitting",
    "allocate_given",
    "answer",
    "ask",
    "begin",
    "definitions",
    "find_policy",
    "find_unlimited_policy",
    "left_out",
    "read_question",
    "schema",
    "sets_solved",
    "tell",
    "write",
]

POLICIES: Registry[Callable[..., Any]] = Registry(
    "policy",
    "policy.name",
    {
        "set-expansion": set_expansion,
        "dual": dual,
        "steady": steady,
        "exhaustive": exhaustive,
        "ocean": ocean,
        "rs-wel": rs_wel,
        "uniform": uniform,
        "all": everyone,
        "round-robin": round_robin,
        "proportional-fair": proportional_fair,
        "best-channel": best_channel,
        "oldest": oldest,
        "fedcs": fedcs,
        "power-of-choice": power_of_choice,
        "oort-like": oort_like,
    },
)
# Those that choose without looking at the radio.
_CHOICES: dict[str, Callable[..., Index]] = {"uniform": choose_uniformly, "all": choose_everyone}


def find_policy(name: str, **options: Any) -> Policy:
    """The policy called `name`, or at the path ``package.module:name``, with its options."""
    entry, what = POLICIES.find(name), f"policy {name!r}"
    if _decides(entry):
        check_options(entry, what, 2, options)
        return as_policy(functools.partial(entry, **options), name)
    return as_policy(make(entry, what, (), options), name)


def find_unlimited_policy(name: str, **options: Any) -> Policy:
    """The policy where radio and energy have no limits (the paper's Section V-B): it only chooses."""
    if name not in _CHOICES:
        raise InputError(f"policy {name!r} needs the radio; without it choose {' or '.join(_CHOICES)}")
    check_options(POLICIES.find(name), f"policy {name!r}", 0, options)
    return as_policy(allocate_without_limits(name, functools.partial(_CHOICES[name], **options)), name)


def _decides(entry: Any) -> bool:
    """Whether an entry is itself a policy: its first parameter is called `problem`."""
    return inspect.isroutine(entry) and next(iter(inspect.signature(entry).parameters), "") == "problem"
