"""A stranger's policy, from outside the package: a plain function, a maker, a class that remembers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.rounds import play
from pmafl.scheduling import Outlook, begin, find_policy
from pmafl.scheduling.policy import Policy, as_policy
from pmafl.settings import load
from pmafl.world import build_world

OWN = """
import numpy as np
from pmafl.scheduling import allocate_fitting, allocate_given

def strongest(problem, rng, count: int = 1):
    chosen = np.argsort(-problem.channel_gain)[:count]
    return allocate_fitting(problem, chosen, "strongest")

def weakest(count: int = 2):
    def decide(problem, rng):
        return allocate_fitting(problem, np.argsort(problem.channel_gain)[:count], "weakest")
    return decide

class RoundRobin:
    def __init__(self, count: int = 3):
        self.count = count

    def start(self, outlook):
        return {"next": np.array(0)}

    def decide(self, problem, state, rng):
        wanted = (state["next"] + np.arange(self.count)) % problem.devices
        return allocate_fitting(problem, wanted, "round-robin")

    def observe(self, state, problem, decision, outcome):
        return {"next": (state["next"] + self.count) % problem.devices}

class Forgets:
    def start(self, outlook):
        return {"next": "first"}

class Lists(RoundRobin):
    def observe(self, state, problem, decision, outcome):
        return [state]

class Raises(RoundRobin):
    def observe(self, state, problem, decision, outcome):
        return {"next": state["last"]}

class Names(RoundRobin):
    def start(self, outlook):
        return {"next": np.array(0), "names": ["a"]}

class Nothing:
    pass
"""


@pytest.fixture(autouse=True)
def own_policies(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "policies_of_a_user.py").write_text(OWN)


def own(name):
    return f"policies_of_a_user:{name}"


def world(name, **options):
    return build_world(
        load(
            "mnist",
            {
                "run.learning": "none",
                "run.rounds": 7,
                "fleet.devices": 10,
                "fleet.samples": 600,
                "policy.name": own(name),
                "policy.options": options,
            },
        )
    )


def test_a_plain_function_is_a_policy_and_may_have_options(make_problem):
    problem = make_problem(channel_gain=[1e-9, 1e-8, 2e-9])
    assert find_policy(own("strongest"))(problem, None).scheduled_devices == [1]
    assert find_policy(own("strongest"), count=2)(problem, None).scheduled_devices == [1, 2]
    with pytest.raises(InputError, match="option count = 'two': must be a whole number"):
        find_policy(own("strongest"), count="two")


def test_a_maker_is_called_with_its_options(make_problem):
    problem = make_problem(channel_gain=[1e-9, 1e-8, 2e-9])
    assert find_policy(own("weakest"))(problem, None).scheduled_devices == [0, 2]
    assert find_policy(own("weakest"), count=1)(problem, None).scheduled_devices == [0]


def turns(played):
    """Who was wanted in each round."""
    return [sorted(record.scheduled + record.dropped) for _, record in played]


def test_a_policy_that_remembers_goes_on_with_the_next_devices():
    whole = list(play(world("RoundRobin", count=3)))
    assert turns(whole) == [
        [0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 1, 9], [2, 3, 4], [5, 6, 7], [0, 8, 9]
    ]  # fmt: skip
    saved = whole[2][0]
    assert saved.policy["next"] == 9
    written = json.dumps({name: value.tolist() for name, value in saved.policy.items()})
    read = {name: np.array(value) for name, value in json.loads(written).items()}
    rest = list(play(world("RoundRobin", count=3), state=replace(saved, policy=read)))
    assert [record for _, record in rest] == [record for _, record in whole[3:]]


def test_a_policy_without_memory_has_an_empty_state():
    *_, (state, _) = play(world("strongest", count=2))
    assert state.policy == {}


def test_what_is_a_policy_already_stays_as_it_is():
    policy = Policy(lambda problem, state, rng: None)
    assert as_policy(policy, "mine") is policy


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Nothing", "made a Nothing; it must be a function of a problem and a generator"),
        ("Forgets", "made a Forgets; it must be a function of a problem and a generator"),
        ("Lists", "in round 0: observe returned a list; it must return a mapping from names to arrays"),
        ("Names", "before the first round: start returned a list as 'names'; it must be an array of numbers"),
        ("Raises", "in round 0: raised KeyError: 'last' (policies_of_a_user.py:"),
    ],
)
def test_a_policy_that_breaks_the_contract_is_one_line(name, said):
    with pytest.raises(InputError) as error:
        list(play(world(name)))
    assert str(error.value).startswith(f"policy {own(name)!r} ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_outlook_tells_the_budgets(make_problem):
    problem = make_problem(samples=[600, 300], budget_j=[0.1, 0.2])
    policy = find_policy("steady")
    state = begin(policy, Outlook(problem, np.ones(1), 5), "steady")
    assert state["total_j"] == pytest.approx([0.5, 1.0])
