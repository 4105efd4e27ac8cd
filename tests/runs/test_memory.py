"""Policies and algorithms that remember: a run that was stopped goes on as if it had not been."""

import json
import os
import signal
import subprocess
import sys

import pytest

from pmafl import runs
from pmafl.learning.algorithms import ALGORITHMS
from pmafl.learning.uploads import UPLOADS
from pmafl.scheduling import POLICIES
from pmafl.settings import load
from tests.runs.directories import Stop, commit_every_round, contents, run, stop_after

OPTIONS = {"uniform": {"policy.options.count": 3}}
OWN = {"policy.name": "tests.own_policies:RoundRobin", "policy.options.count": 4}
PLAIN = {"learning.momentum": 0.0, "learning.predictor_rate": 0.05}
ALGORITHMS_OF_OTHERS = {
    "ditto": {"learning.algorithm": "tests.own_ditto:ditto"},
    "scaffold": {"learning.algorithm": "tests.own_scaffold:scaffold"} | PLAIN,
}


def interrupted(directory, overrides):
    """Run it in three parts, the first two of which end in the middle."""
    with pytest.raises(Stop):
        run(directory, overrides, [stop_after(0)])
    with pytest.raises(Stop):
        runs.execute(directory, [stop_after(2)])
    runs.execute(directory)
    return contents(directory)


def whole(directory, overrides):
    run(directory, overrides)
    return contents(directory)


@pytest.mark.parametrize(
    "choice",
    [{"policy.name": name, **OPTIONS.get(name, {})} for name in POLICIES]
    + [{"learning.algorithm": name} for name in ALGORITHMS]
    + [{"learning.upload": name} for name in UPLOADS],
    ids=lambda choice: next(iter(choice.values())),
)
def test_whatever_a_run_uses_it_goes_on_to_the_same_end(tmp_path, tiny, monkeypatch, choice):
    commit_every_round(monkeypatch)
    changes = tiny | {
        "cell.deadline_s": 1.0,
        "policy.tradeoff": 1.0,
        "run.rounds": 4,
        "learning.iterations": 2,
    }
    changes |= choice
    assert whole(tmp_path / "whole", changes) == interrupted(tmp_path / "parts", changes)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", ALGORITHMS_OF_OTHERS)
def test_policies_and_algorithms_of_others_go_on_too(tmp_path, tiny, monkeypatch, name, every):
    commit_every_round(monkeypatch)
    changes = tiny | OWN | ALGORITHMS_OF_OTHERS[name] | {"run.checkpoint_every": every}
    records, tensors = whole(tmp_path / "whole", changes)
    assert (records, tensors) == interrupted(tmp_path / "parts", changes)
    assert {("state", "policy/next"), ("state", "server/model")} < tensors.keys()
    held = {"ditto": "personal", "scaffold": "control"}[name]
    assert {key for key in tensors if key[0] == "held"} == {("held", f"{k}/{held}") for k in range(6)}
    turns = [json.loads(line)["scheduled"] for line in records.splitlines()]
    assert turns[:3] == [[0, 1, 2, 3], [0, 1, 4, 5], [2, 3, 4, 5]]


def test_arrays_of_any_kind_and_layout_are_remembered(tmp_path, tiny, monkeypatch, capsys):
    commit_every_round(monkeypatch)
    changes = tiny | {"run.learning": "none", "policy.name": "tests.own_policies:Diary"}
    records, tensors = whole(tmp_path / "whole", changes)
    assert (records, tensors) == interrupted(tmp_path / "parts", changes)
    assert len([name for group, name in tensors if name.startswith("policy/")]) == 7
    assert [len(json.loads(line)["scheduled"]) for line in records.splitlines()] == [2, 3, 4, 5, 6]
    assert "damaged" not in capsys.readouterr().err


@pytest.mark.heavy
def test_a_kill_changes_nothing_for_those_of_others(tmp_path, tiny):
    changes = tiny | OWN | ALGORITHMS_OF_OTHERS["ditto"] | {"run.rounds": 40, "run.evaluate_every": 20}
    settings = load("mnist", changes)
    for name in ("whole", "killed"):
        runs.create(tmp_path / name, settings)

    def execute(name, callback="print"):
        code = f"import os; from pmafl import runs; runs.execute({str(tmp_path / name)!r}, [{callback}])"
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.run([sys.executable, "-c", code], env=environment).returncode

    assert execute("whole") == 0
    for number in (9, 30):
        killed = (
            f"lambda world, record: record.round == {number} and os.kill(os.getpid(), {signal.SIGKILL:d})"
        )
        assert execute("killed", killed) == -signal.SIGKILL
        assert (tmp_path / "killed" / "rounds.jsonl").read_bytes().count(b"\n") == number + 1
    assert execute("killed") == 0
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")
