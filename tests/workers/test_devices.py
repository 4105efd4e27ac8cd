"""Workers of a run: the same bits whoever does the work, and no worker where there is nothing to gain."""

import itertools
import os
import sys
from multiprocessing import active_children
from types import SimpleNamespace

import pytest

from pmafl import comparison, runs
from pmafl.errors import InputError
from pmafl.learning.algorithms import ALGORITHMS, find_algorithm
from pmafl.rounds import simulate
from pmafl.settings import load
from pmafl.workers import cores
from pmafl.workers import devices as worker_devices
from tests.workers.crews import CASES, EVERYONE, eager, played

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="workers are forked on Linux alone")


@pytest.fixture
def busy(monkeypatch):
    """What workers were given to do."""
    from pmafl.workers.processes import Fork

    eager(monkeypatch)
    kinds, give = [], Fork.give

    def noted(self, number, kind, part):
        kinds.append(kind)
        give(self, number, kind, part)

    monkeypatch.setattr(Fork, "give", noted)
    return kinds


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_workers_gives_the_same_bits(tiny, case, busy):
    overrides = tiny | EVERYONE | CASES[case]
    alone = played(overrides, 1)
    assert busy == []
    for count in (2, 3, 5):
        assert played(overrides, count) == alone
    # In the first round one device is trained here, to see how long it takes.
    assert busy.count("train") == 3 * (4 + 5 + 5)
    assert busy.count("score") + busy.count("outcomes") >= 3 * 2 * 2
    assert active_children() == []


def test_the_same_run_directory_comes_from_any_number_of_workers(tmp_path, tiny, busy):
    settings = load("mnist", tiny | EVERYONE)
    for count in (1, 2):
        runs.run(tmp_path / str(count), settings, workers=count)
    assert (tmp_path / "1" / "rounds.jsonl").read_bytes() == (tmp_path / "2" / "rounds.jsonl").read_bytes()
    assert "train" in busy


@pytest.mark.parametrize(("seconds", "hired"), [(0.001, 0), (0.5, 2)])
def test_workers_start_where_training_takes_long_enough(tiny, monkeypatch, seconds, hired):
    clock = itertools.count(step=seconds)  # whatever it takes on this machine
    monkeypatch.setattr(worker_devices, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    seen = [len(active_children()) for _ in simulate(load("mnist", tiny | EVERYONE), workers=2)]
    assert seen == [hired] * 3


def test_one_device_is_trained_here(tiny, busy):
    list(simulate(load("mnist", tiny | EVERYONE | {"policy.options.count": 1}), workers=8))
    assert "train" not in busy


def test_workers_have_what_the_users_program_registered(tiny, busy, monkeypatch):
    monkeypatch.setitem(ALGORITHMS._entries, "mine", lambda learning: find_algorithm(load("mnist").learning))
    overrides = tiny | EVERYONE | {"learning.algorithm": "mine"}
    assert played(overrides, 2) == played(overrides, 1)
    assert "train" in busy


def test_what_goes_wrong_in_a_worker_is_told_as_if_it_had_gone_wrong_here(tiny, busy):
    changes = {"learning.algorithm": "tests.workers.own_slow:slow", "learning.options.seconds": 0.0}
    overrides = tiny | EVERYONE | CASES["sizes"] | changes | {"learning.options.fails": 30}
    told = []
    for count in (1, 3):
        with pytest.raises(InputError) as error:
            played(overrides, count)
        told.append(str(error.value))
    assert told[0] == told[1]
    assert "device 4: raised ValueError: no more of this (own_slow.py:" in told[0]
    assert "train" in busy
    assert active_children() == []


@pytest.mark.parametrize(
    ("team", "line"),
    [
        ({"workers": 0}, "workers = 0: must be at least 1"),
        ({"address": "here:1"}, "address = 'here:1': is a Ray cluster's; it needs the engine 'ray'"),
    ],
)
def test_a_team_that_cannot_be_is_refused_before_anything_is_written(team, line, tmp_path, tiny):
    with pytest.raises(InputError, match=line):
        runs.run(tmp_path / "run", load("mnist", tiny), **team)
    assert not (tmp_path / "run").exists()


def test_a_comparison_divides_the_cores_among_its_runs(tmp_path, monkeypatch):
    given = []

    def run_tasks(function, tasks, count):
        given.append((count, {task[-1] for task in tasks}))
        yield from ((number, None) for number in range(len(tasks)))

    monkeypatch.setattr(comparison, "run_tasks", run_tasks)
    jobs = comparison.grid("mnist", {}, {}, range(3), tmp_path)
    for count in (1, 2, 3, 8):
        comparison.run_locally(jobs, count, lambda done, total: None)
    assert given == [(1, {1}), (2, {1}), (3, {1}), (3, {2})]


def test_a_container_may_have_fewer_cores_than_its_machine(tmp_path, monkeypatch):
    quota, here = sys.modules[cores.__module__], cores()
    assert 1 <= here <= os.cpu_count()
    for text, expected in (("max 100000", None), ("50000 100000", 1), ("not a number", None)):
        (tmp_path / "cpu.max").write_text(text)
        monkeypatch.setattr(quota, "QUOTA", tmp_path / "cpu.max")
        assert cores() == (expected or len(os.sched_getaffinity(0)))
