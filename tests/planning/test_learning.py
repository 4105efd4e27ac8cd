"""How accuracy grows with participation, read from runs."""

import pytest

from pmafl import runs
from pmafl.errors import InputError
from pmafl.planning import read_curve
from pmafl.settings import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_data):
    folder = tmp_path_factory.mktemp("runs")
    small = {"data.dataset": str(tiny_data), "data.partition": "iid", "fleet.devices": 6, "run.rounds": 4}
    small |= {"learning.operations_per_sample": "count", "policy.name": "uniform", "policy.options.count": 3}
    for seed in (1, 2):
        runs.run(folder / f"seed-{seed}", load("mnist", small | {"run.seed": seed}))
    return folder


def test_the_curve_is_that_of_the_records(folder):
    curve = read_curve([folder / "seed-1"])
    rows = runs.open_run(folder / "seed-1").rows
    assert curve.turns[0].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert curve.accuracy[0].tolist() == [row["accuracy"] for row in rows]
    here = curve.after(1.5)
    assert here.accuracy == pytest.approx(rows[2]["accuracy"])
    assert here.over_devices == pytest.approx(rows[2]["accuracy_std"])
    assert not here.extrapolates


def test_between_tests_it_is_straight_and_beyond_them_held(folder):
    curve = read_curve([folder / "seed-1"])
    first, second = curve.accuracy[0][:2]
    assert curve.after(0.75).accuracy == pytest.approx((first + second) / 2)
    beyond = curve.after(100.0)
    assert beyond.accuracy == curve.accuracy[0][-1]
    assert beyond.extrapolates


def test_a_folder_of_runs_gives_a_spread_over_runs(folder):
    curve = read_curve([folder])
    assert len(curve.runs) == 2
    here = curve.after(2.0)
    low, high = sorted(accuracy[-1] for accuracy in curve.accuracy)
    assert here.over_runs == (low, high)
    assert here.accuracy == pytest.approx((low + high) / 2)


def test_it_says_how_many_turns_an_accuracy_took(folder):
    curve = read_curve([folder / "seed-1"])
    assert curve.turns_for(0.0) == 0.5
    assert curve.turns_for(1.01) is None


def test_what_is_no_run_or_never_tested_is_refused(tmp_path):
    with pytest.raises(InputError, match="neither a run directory nor a folder of them"):
        read_curve([tmp_path])
    wireless = {"run.learning": "none", "run.rounds": 1, "fleet.devices": 10, "fleet.samples": 100}
    runs.run(tmp_path / "wireless", load("mnist", wireless))
    with pytest.raises(InputError, match="was never tested"):
        read_curve([tmp_path / "wireless"])
