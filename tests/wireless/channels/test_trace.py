import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.settings import load
from pmafl.wireless.channels import Site, make_channel


def follow(path, devices=3, rounds=4):
    cell = load("mnist", {"cell.gain_trace": str(path)}).cell
    return make_channel(Site(cell, np.full(devices, 100.0), np.full(devices, 1e-8)), rounds)


def test_a_trace_takes_the_place_of_draws_and_of_the_mean_gain(tmp_path):
    gains = np.random.default_rng(0).exponential(1e-8, (4, 3))
    np.save(tmp_path / "trace.npy", gains)
    made = follow(tmp_path / "trace.npy")
    assert np.array_equal(np.stack([made.gains({}, index, None)[0] for index in range(4)]), gains)
    assert made.mean_gain == pytest.approx(gains.mean(axis=0))
    assert made.law(3) == pytest.approx(-np.log1p(-np.array([1, 3, 5]) / 6))


def test_a_trace_of_too_few_rounds_is_one_line(tmp_path):
    np.save(tmp_path / "trace.npy", np.ones((2, 3)))
    with pytest.raises(InputError, match=r"holds 2 rounds, but run\.rounds = 4"):
        follow(tmp_path / "trace.npy")
