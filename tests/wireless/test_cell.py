import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.settings import load
from pmafl.wireless.cell import distances, load_trace, noise_w_per_hz, path_gain, place

CELL = load("mnist").cell


def test_noise_power_of_minus_174_dbm_by_hand():
    # -174 dBm/Hz = 10^-17.4 mW/Hz = 3.981e-18 mW/Hz = 3.981e-21 W/Hz; over 10 MHz 3.981e-14 W.
    assert noise_w_per_hz(-174) == pytest.approx(3.981071705534969e-21, rel=1e-12)
    assert noise_w_per_hz(-174) * 1e7 == pytest.approx(3.981071705534969e-14, rel=1e-12)
    assert noise_w_per_hz(30) == pytest.approx(1.0)


def test_path_loss_at_100_m_by_hand():
    # -30 dB at 1 m, then 20 dB a decade with exponent 2: -30 - 40 = -70 dB = 1e-7.
    assert path_gain(CELL, np.array([100.0])) == pytest.approx([1e-7], rel=1e-12)
    assert path_gain(CELL, np.array([1.0])) == pytest.approx([1e-3], rel=1e-12)


def test_devices_are_uniform_in_the_square_and_never_too_close():
    position_m = place(CELL, 200_000, np.random.default_rng(0))
    assert np.abs(position_m).max() <= 250
    assert position_m.mean(axis=1) == pytest.approx([0, 0], abs=2)
    distance_m = distances(position_m)
    assert distance_m.min() >= CELL.min_distance_m
    assert distance_m == pytest.approx(np.sqrt((position_m**2).sum(axis=0)))
    # Mean distance from the centre of a square of side a: a (sqrt(2) + asinh(1)) / 6.
    assert distance_m.mean() == pytest.approx(500 * (np.sqrt(2) + np.arcsinh(1)) / 6, rel=5e-3)
    # The inscribed circle holds pi/4 of the square.
    assert (distance_m < 250).mean() == pytest.approx(np.pi / 4, abs=5e-3)


def test_placement_ends_where_the_smallest_distance_fills_most_of_the_cell():
    narrow = load("mnist", {"cell.min_distance_m": 250.0}).cell
    assert distances(place(narrow, 1000, np.random.default_rng(0))).min() >= 250


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_a_trace_is_read_back_as_written(tmp_path, suffix):
    gains = np.random.default_rng(0).exponential(1e-8, (6, 3))
    file = tmp_path / f"trace{suffix}"
    np.save(file, gains) if suffix == ".npy" else np.savetxt(file, gains, delimiter=",", fmt="%.18g")
    assert np.array_equal(load_trace(str(file), rounds=4, devices=3), gains[:4])


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_a_gain_of_0_in_a_trace_means_no_connection(tmp_path, suffix):
    gains = np.array([[0.0, 1e-8], [0.0, 0.0]])
    file = tmp_path / f"trace{suffix}"
    np.save(file, gains) if suffix == ".npy" else np.savetxt(file, gains, delimiter=",")
    assert np.array_equal(load_trace(str(file), rounds=2, devices=2), gains)


@pytest.mark.parametrize(
    ("gains", "line"),
    [
        (np.ones((5, 2)), r"shape \(5, 2\); needs \(rounds, 3\)"),
        (np.ones(3), r"shape \(3,\)"),
        (np.ones((2, 3)), r"holds 2 rounds, but run.rounds = 4"),
        (np.where(np.eye(5, 3) > 0, np.nan, 1.0), r"gain nan in round 0, device 0"),
        (
            np.full((5, 3), -1e-9),
            r"gain -1e-09 in round 0, device 0; must be 0 \(no connection\) or a number",
        ),
        (np.full((5, 3), 1e-50), r"must be 0 \(no connection\) or a number from 1e-40 to 1e\+15"),
        (np.full((5, 3), "x"), r"needs \(rounds, 3\) numbers"),
    ],
)
def test_a_wrong_trace_gives_one_clear_line(tmp_path, gains, line):
    np.save(tmp_path / "trace.npy", gains)
    with pytest.raises(InputError, match=line):
        load_trace(str(tmp_path / "trace.npy"), rounds=4, devices=3)


def test_a_trace_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_trace(str(tmp_path / "none.csv"), 1, 1)
    for name, line in (
        ("text.csv", r"not a \.npy or CSV file of numbers"),
        ("text.npy", r"not a readable \.npy file of plain numbers"),
    ):
        (tmp_path / name).write_text("a,b\nc,d\n")
        with pytest.raises(InputError, match=line):
            load_trace(str(tmp_path / name), 1, 2)


@pytest.mark.parametrize("content", ["", "\n\n", "1,2\n3\n", "1,2\n3,4,5\n", "\x00,1\n", "# only a remark\n"])
def test_a_csv_trace_that_is_no_table_gives_one_clear_line(tmp_path, content):
    (tmp_path / "trace.csv").write_text(content)
    with pytest.raises(InputError) as error:
        load_trace(str(tmp_path / "trace.csv"), 1, 2)
    assert "\n" not in str(error.value)


def test_a_csv_trace_beyond_the_limit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    (tmp_path / "trace.csv").write_text("1e-8,1e-8\n" * 1000)
    monkeypatch.setenv("PMAFL_MAX_GB", "1e-6")
    with pytest.raises(InputError, match="set PMAFL_MAX_GB to more"):
        load_trace(str(tmp_path / "trace.csv"), 1, 2)


def test_a_trace_that_is_not_text_gives_one_clear_line(tmp_path):
    (tmp_path / "trace.csv").write_bytes(b"\xff\xfe1,2\n")
    with pytest.raises(InputError, match=r"not a \.npy or CSV file of numbers"):
        load_trace(str(tmp_path / "trace.csv"), 1, 2)
