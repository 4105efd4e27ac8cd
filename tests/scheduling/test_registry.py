import sys
import types

import numpy as np
import pytest

from pmafl import scheduling
from pmafl.errors import InputError


def strongest(problem, rng):
    return scheduling.allocate_given(problem, problem.channel_gain == problem.channel_gain.max(), "strongest")


def weakest(count=1):
    def schedule(problem, rng):
        chosen = np.argsort(problem.channel_gain)[:count]
        return scheduling.allocate_given(problem, np.isin(np.arange(problem.devices), chosen), "weakest")

    return schedule


def broken(count=1):
    raise RuntimeError("no battery")


@pytest.fixture
def own_policies(monkeypatch):
    monkeypatch.setattr(scheduling.POLICIES, "_entries", dict(scheduling.POLICIES._entries))
    module = types.ModuleType("own_policies")
    module.strongest, module.weakest, module.number = strongest, weakest, 3
    module.nothing, module.broken = (lambda: None), broken
    monkeypatch.setitem(sys.modules, "own_policies", module)


@pytest.mark.usefixtures("own_policies")
def test_an_own_policy_works_by_name_and_by_path(make_problem):
    problem = make_problem(channel_gain=[1e-9, 1e-8, 1e-10])
    scheduling.POLICIES.register("strongest", strongest)
    scheduling.POLICIES.register("weakest", weakest)
    assert scheduling.find_policy("strongest")(problem, None).scheduled_devices == [1]
    assert scheduling.find_policy("own_policies:strongest")(problem, None).scheduled_devices == [1]
    assert scheduling.find_policy("weakest", count=2)(problem, None).scheduled_devices == [0, 2]
    assert scheduling.find_policy("own_policies:weakest")(problem, None).scheduled_devices == [2]


@pytest.mark.usefixtures("own_policies")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("nonsense", {}, "policy.name = 'nonsense': there is no such policy; choose set-expansion, dual"),
        ("daul", {}, "policy.name = 'daul': there is no such policy; did you mean 'dual'"),
        ("dual", {"tolerence": 1}, "policy 'dual' was given the options tolerence; it has tolerance"),
        ("all", {"count": 1}, "policy 'all' was given the options count; it has none"),
        ("no.such.module:policy", {}, "there is no module"),
        ("own_policies:missing", {}, "has no 'missing'"),
        ("own_policies:number", {}, "is a int; it must be a function"),
        (
            "own_policies:nothing",
            {},
            "policy 'own_policies:nothing' made a NoneType; it must be a function",
        ),
        (
            "own_policies:broken",
            {},
            r"'own_policies:broken': raised RuntimeError: no battery \(test_registry.py:",
        ),
        ("builtins:dict", {"count": 3}, "policy 'builtins:dict'"),
        ("uniform", {"count": "abc"}, "policy 'uniform', option count = 'abc': must be a whole number"),
        ("uniform", {"count": 2.5}, "policy 'uniform', option count = 2.5: must be a whole number"),
        ("uniform", {"count": True}, "policy 'uniform', option count = True: must be a whole number"),
        ("dual", {"tolerance": "tight"}, "policy 'dual', option tolerance = 'tight': must be a number"),
        ("dual", {"tolerance": float("nan")}, "policy 'dual': tolerance is nan; it must be 0 or more"),
        ("ocean", {"compute_fraction": [1]}, "policy 'ocean', option compute_fraction = "),
        ("set-expansion", {"inner": 3}, "policy 'set-expansion', option inner = 3: must be a word"),
    ],
)
def test_a_wrong_name_or_option_is_one_clear_line(name, options, said):
    with pytest.raises(InputError, match=said):
        scheduling.find_policy(name, **options)


def test_only_policies_that_ignore_the_radio_work_without_it():
    with pytest.raises(InputError, match="policy 'dual' needs the radio; without it choose uniform or all"):
        scheduling.find_unlimited_policy("dual")
    with pytest.raises(InputError, match="was given the options size; it has count"):
        scheduling.find_unlimited_policy("uniform", size=3)
    with pytest.raises(InputError, match="policy 'uniform', option count = 'abc'"):
        scheduling.find_unlimited_policy("uniform", count="abc")


def test_every_policy_of_the_contract_is_there():
    assert set(scheduling.POLICIES) >= {
        "set-expansion", "dual", "steady", "exhaustive", "ocean", "rs-wel", "uniform", "all"
    }  # fmt: skip
