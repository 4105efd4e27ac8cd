"""The examples of the guide are what a user would write, and they run; the tables say what is so."""

import inspect
import re
import shlex
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pmafl.learning.algorithms import ALGORITHMS
from pmafl.learning.workload import workload
from pmafl.rounds import play
from pmafl.scheduling import find_policy
from pmafl.settings import load, parse_assignment
from pmafl.world import build_world, channel_gains

GUIDE = (Path(__file__).parents[1] / "docs" / "extend.md").read_text("utf-8")
FILES = {name: code for code, name in re.findall(r"```python\n(# (\w+)\.py\n.*?)```", GUIDE, flags=re.DOTALL)}
COMMANDS = re.findall(r"^    (pmafl run .+)$", GUIDE, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def beside_the_user(tmp_path, monkeypatch):
    """The guide's files in a folder outside the package."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, code in FILES.items():
        (tmp_path / f"{name}.py").write_text(code)
    yield
    for name in FILES:
        sys.modules.pop(name, None)


def overrides(module):
    """The settings of the guide's command that uses a module."""
    (command,) = [command for command in COMMANDS if f"{module}:" in command]
    words = shlex.split(command)
    assert words[:3] == ["pmafl", "run", "mnist"]
    return dict(parse_assignment(value) for flag, value in pairwise(words) if flag == "--set")


WIRELESS = {"run.learning": "none", "run.rounds": 12, "fleet.devices": 30, "fleet.samples": 300}


def assert_going_on_is_the_same(settings, middle):
    states, whole = zip(*play(build_world(settings)), strict=True)
    rest = tuple(record for _, record in play(build_world(settings), state=states[middle]))
    assert rest == whole[middle + 1 :]
    return states, whole


def test_every_example_is_short_and_has_its_command():
    assert set(FILES) == {"my_policies", "my_turns", "my_algorithms", "my_uploads", "my_channels"}
    assert all(len(code.strip().splitlines()) <= 30 for code in FILES.values())
    assert len(COMMANDS) == len(FILES)


def test_the_plain_policy_takes_those_with_the_highest_loss(tiny):
    settings = load("mnist", tiny | overrides("my_policies") | {"policy.options.count": 2})
    states, records = assert_going_on_is_the_same(settings, 2)
    assert [record.scheduled for record in records[:3]] == [[0, 1], [2, 3], [4, 5]]
    assert records[3].scheduled == sorted(np.argsort(-states[2].last_loss)[:2].tolist())


def test_the_policy_that_remembers_goes_round(tiny):
    settings = load("mnist", WIRELESS | overrides("my_turns"))
    states, records = assert_going_on_is_the_same(settings, 4)
    assert sorted(records[0].scheduled + records[0].dropped) == list(range(10))
    assert sorted(records[1].scheduled + records[1].dropped) == list(range(10, 20))
    assert [int(state.policy["next"]) for state in states[:3]] == [10, 20, 0]


def test_the_algorithm_keeps_a_model_of_each_devices_own(tiny):
    settings = load("mnist", tiny | {"policy.name": "all"} | overrides("my_algorithms"))
    states, records = assert_going_on_is_the_same(settings, 2)
    own = [held["own"] for held in states[-1].learning.devices.values()]
    assert len(own) == 6
    assert not any((one == other).all() for one, other in pairwise(own))
    assert records[-1].loss < records[0].loss
    plain = build_world(load("mnist", tiny | {"learning.algorithm": "fedavg"}))
    assert build_world(settings).costs == replace(
        plain.costs, charged_iterations=2 * plain.costs.charged_iterations
    )


def test_the_upload_is_charged_and_its_residual_goes_on(tiny):
    settings = load("mnist", tiny | {"policy.name": "all"} | overrides("my_uploads"))
    states, records = assert_going_on_is_the_same(settings, 2)
    world = build_world(settings)
    assert world.costs.upload_bits == 8 * world.method.upload_sizes(0)["extractor"] + 32
    assert all(held["residual-extractor"].any() for held in states[-1].learning.devices.values())
    assert records[-1].loss < records[0].loss


def test_the_channel_has_the_mean_it_says_and_stays_for_a_while():
    settings = load(
        "mnist", WIRELESS | overrides("my_channels") | {"fleet.devices": 3000, "fleet.samples": 10}
    )
    world = build_world(settings)
    factor = channel_gains(world) / world.channel.mean_gain
    assert factor.mean() == pytest.approx(1, abs=0.01)
    blocked = factor < 1
    assert blocked.mean() == pytest.approx(0.3, abs=0.02)
    assert blocked[1:][blocked[:-1]].mean() == pytest.approx(0.8, abs=0.02)
    assert world.channel.law(1000).mean() == pytest.approx(1, abs=0.01)


def test_a_run_over_the_channel_goes_on_exactly():
    assert_going_on_is_the_same(load("mnist", WIRELESS | overrides("my_channels")), 5)


PAGE = (Path(__file__).parents[1] / "docs" / "algorithms.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `([\w-]+)` \|(.*)$", PAGE, flags=re.MULTILINE))


def test_every_algorithm_is_in_the_table_with_its_options():
    assert set(ROWS) == set(ALGORITHMS)
    for name, row in ROWS.items():
        options = list(inspect.signature(ALGORITHMS[name]).parameters)[1:]
        columns = row.split("|")
        assert re.findall(r"`(\w+)`", columns[4]) == options, name
        assert len(columns) == 7


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_table_says_what_is_charged(name):
    """In units of iterations and of the model's parts, as the wireless side knows them."""
    _, up, down, passes, *_ = (column.strip() for column in ROWS[name].split("|"))
    learning = load("mnist", {"learning.algorithm": name}).learning
    costs, parts = workload(learning), {"M": 550_346, "E": 533_248, "H": 17_098, "-": 0, "2 M": 2 * 550_346}
    parts |= {"M without norms": 550_346, "the same": 550_346}
    assert costs.upload_bits == learning.upload_bits_per_parameter * parts[up]
    assert costs.download_bits == 32 * parts[down]
    each = learning.iterations
    charged, tuned = {"I": each, "2 I": 2 * each, "`steps` x I": 5 * each}, {"tuning I": each, "tuning 1": 1}
    first, *more = passes.split(", ")
    assert costs.charged_iterations == charged[first]
    assert costs.tuning_iterations == sum(tuned.get(entry, 0) for entry in more)


def test_a_class_may_say_that_it_does_not_look_ahead(tmp_path):
    (tmp_path / "my_glance.py").write_text(
        FILES["my_turns"].replace("    def __init__", "    looks_ahead = False\n\n    def __init__", 1)
    )
    plain, glancing = find_policy("my_turns:RoundRobin"), find_policy("my_glance:RoundRobin")
    sys.modules.pop("my_glance")
    assert plain.plans
    assert not glancing.plans
    assert glancing.remembers
