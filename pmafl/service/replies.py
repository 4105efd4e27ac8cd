"""One question to a policy, answered in JSON whatever comes.

A reply is a function of what was asked for, the memory and the text. Nothing is kept here, so that the same
functions serve a pipe, a pool of processes and a test. A question that cannot be answered leaves the memory
as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from pmafl.errors import InputError, NoAnswer
from pmafl.plugins import describe
from pmafl.scheduling import (
    BadProblem,
    Decision,
    Outlook,
    Policy,
    Question,
    State,
    allocate_given,
    answer,
    ask,
    begin,
    find_policy,
    read_question,
    tell,
    write,
)
from pmafl.streams import stream
from pmafl.wireless import RoundProblem

Kind = Literal["decision", "input", "no-answer", "internal"]


@dataclass(frozen=True)
class Asked:
    """Which policy decides, with which options, and with which seed if it draws at random.

    `reasons` says whether answers tell why devices were left out.
    """

    policy: str = "dual"
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    reasons: bool = True

    def find(self) -> Policy:
        """The policy; `InputError` where there is none, or not with these options."""
        return find_policy(self.policy, **self.options)


@dataclass(frozen=True, eq=False)
class Memory:
    """What the next question needs: the policy's state, and the round before, which it has not observed yet.

    rounds: how many rounds have been decided. state: None before the first. devices: their number, and
    their names if they have any. planned: how many rounds the policy was told of before the first.
    """

    rounds: int = 0
    state: State | None = None
    devices: tuple[int, list[str | int] | None] | None = None
    problem: RoundProblem | None = None
    decision: Decision | None = None
    planned: int = 0


class Reply(NamedTuple):
    """A line of JSON, the memory after it, and what kind of answer it is."""

    text: str
    memory: Memory
    kind: Kind


def reply(
    asked: Asked, memory: Memory, text: str | bytes, line: int | None = None, policy: Policy | None = None
) -> Reply:
    """The decision about the problem in the text, or an error that says what is wrong; never raises.

    `line` is said in errors; `policy` is the one that is asked for, if it has been found before.
    """
    found: dict[str, Any] = {}
    try:
        question = read_question(text, memory.rounds)
        if question.name is not None:
            found["id"] = question.name
        decision, after = decide(asked, policy or asked.find(), memory, question)
        return Reply(write(answer(question, decision, asked.reasons)), after, "decision")
    except BadProblem as error:
        if error.problem_name is not None:
            found["id"] = error.problem_name
        found |= {"error": str(error), "kind": "input", "faults": error.faults}
    except InputError as error:
        found |= {"error": str(error), "kind": "input"}
    except NoAnswer as error:
        found |= {"error": str(error), "kind": "no-answer"}
    except Exception as error:  # whoever asks next must still be served
        found |= {"error": f"the scheduler failed: {describe(error)}", "kind": "internal"}
    if line is not None:
        found["line"] = line
    return Reply(write(found), memory, found["kind"])


def decide(asked: Asked, policy: Policy, memory: Memory, question: Question) -> tuple[Decision, Memory]:
    """The decision, and the memory after it.

    A policy that remembers observes a round when it is asked about the next one: by then it is known what
    came of it. Where the question says nothing about that, all went as decided.
    """
    problem = question.problem
    if question.fixed is not None:
        return allocate_given(problem, question.fixed, "fixed"), memory
    state: State = {}
    if policy.remembers:
        devices = (problem.devices, question.devices)
        if memory.devices is not None and memory.devices != devices:
            raise InputError(
                f"policy {asked.policy!r} remembers {memory.devices[0]} devices; every problem must have the "
                "same ones in the same order"
            )
        planned = question.rounds if memory.state is None else memory.planned
        if policy.plans and planned and problem.round >= planned:
            said = f"round {problem.round} is beyond the {planned} that {asked.policy!r} planned for"
            raise InputError(said)
        state = _state(asked, policy, memory, question)
        memory = Memory(memory.rounds, state, devices, planned=planned)
    decision = ask(policy, problem, state, stream(asked.seed, "policy", problem.round), asked.policy)
    if policy.remembers:
        memory = replace(memory, problem=problem, decision=decision)
    return decision, replace(memory, rounds=max(memory.rounds, problem.round) + 1)


def decide_once(asked: Asked, question: Question) -> Decision:
    """The decision about a single round, for whoever asks about no other."""
    problem = question.problem
    if question.fixed is not None:
        return allocate_given(problem, question.fixed, "fixed")
    policy = asked.find()
    outlook = question.outlook if question.rounds else Outlook(problem, np.ones(1), problem.round + 1)
    state = begin(policy, outlook, asked.policy)
    return ask(policy, problem, state, stream(asked.seed, "policy"), asked.policy)


def _state(asked: Asked, policy: Policy, memory: Memory, question: Question) -> State:
    """The policy's state after all that has happened."""
    if memory.state is None:
        return begin(policy, question.outlook, asked.policy)
    if memory.problem is None or memory.decision is None:
        return memory.state
    outcome = question.outcome(memory.decision)
    return tell(policy, memory.state, memory.problem, memory.decision, outcome, asked.policy)
