"""`devices.npy` and `Run.devices`: every device in every evaluated round, beside the records."""

import importlib.util

import numpy as np
import pytest

from pmafl import runs
from pmafl.errors import InputError
from tests.runs.directories import Stop, run, stop_after


def table_of(directory):
    found = runs.open_run(directory).devices
    return {name: np.asarray(found[name]) for name in (found if isinstance(found, dict) else found.columns)}


def test_the_columns_agree_with_the_records_and_the_world(tmp_path, tiny):
    run(tmp_path / "run", tiny | {"run.evaluate_every": 2})
    this = runs.open_run(tmp_path / "run")
    columns = np.load(tmp_path / "run" / "devices.npy")
    assert columns["round"].tolist() == [1, 3, 4]
    spent_j = np.zeros(6)
    for record in this.rows:
        energy_j = np.zeros(6)
        energy_j[record["scheduled"]] = np.add(record["compute_energy_j"], record["upload_energy_j"])
        spent_j += energy_j
        for row in columns[columns["round"] == record["round"]]:
            assert row["accuracy"].mean() == pytest.approx(record["accuracy"])
            assert row["accuracy"].std() == pytest.approx(record["accuracy_std"])
            assert row["loss"].mean() == pytest.approx(record["loss"])
            assert np.flatnonzero(row["scheduled"]).tolist() == record["scheduled"]
            np.testing.assert_allclose(row["energy_j"], energy_j)
            np.testing.assert_allclose(row["spent_j"], spent_j)
            assert row["queue_j"].max() == record["max_queue_j"]
            work = this.world.fleet.samples * this.world.fleet.cycles_per_sample * 5
            clock = work[record["scheduled"]] / record["compute_time_s"]
            np.testing.assert_allclose(row["frequency_hz"][record["scheduled"]], clock)
            sent_j = row["power_w"][record["scheduled"]] * record["upload_time_s"]
            np.testing.assert_allclose(sent_j, record["upload_energy_j"])
            assert (row["channel_gain"] > 0).all()
    table = table_of(tmp_path / "run")
    assert table["device"].tolist() == [*range(6)] * 3
    assert table["round"].tolist() == [1] * 6 + [3] * 6 + [4] * 6
    assert np.array_equal(table["accuracy"], columns["accuracy"].reshape(-1))


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_for_people_it_is_a_data_frame(tmp_path, tiny):
    run(tmp_path / "run", tiny | {"run.rounds": 2})
    frame = runs.open_run(tmp_path / "run").devices
    assert frame.groupby("round")["accuracy"].mean().tolist() == [
        pytest.approx(record["accuracy"]) for record in runs.read_records(tmp_path / "run")
    ]


def test_a_run_that_still_goes_on_can_be_looked_at(tmp_path, tiny):
    with pytest.raises(Stop):
        run(tmp_path / "run", tiny, [stop_after(1)])
    assert sorted(set(table_of(tmp_path / "run")["round"].tolist())) == [0, 1]


def test_a_run_made_longer_has_the_rows_of_one_that_was_long(tmp_path, tiny):
    run(tmp_path / "long", tiny)
    run(tmp_path / "longer", tiny | {"run.rounds": 2})
    runs.execute(tmp_path / "longer", rounds=5)
    one, other = ((tmp_path / name / "devices.npy").read_bytes() for name in ("long", "longer"))
    assert one == other


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b"no array"), lambda path: np.save(path, np.zeros(3)),
               lambda path: np.save(path, np.array([{"a": 1}]), allow_pickle=True)],
)  # fmt: skip
def test_a_damaged_file_is_said_and_kept_and_the_run_goes_on(tmp_path, tiny, capsys, damage):
    with pytest.raises(Stop):
        run(tmp_path / "run", tiny, [stop_after(1)])
    damage(tmp_path / "run" / "devices.npy")
    with pytest.raises(InputError, match=r"devices.npy is damaged"):
        _ = runs.open_run(tmp_path / "run").devices
    runs.execute(tmp_path / "run")
    assert "kept as devices.damaged.npy" in capsys.readouterr().err
    assert (tmp_path / "run" / "devices.damaged.npy").exists()
    assert len(runs.read_records(tmp_path / "run")) == 5
    assert len(set(table_of(tmp_path / "run")["round"].tolist())) == 3


def test_without_learning_there_is_nothing_to_see(tmp_path, tiny):
    run(tmp_path / "run", tiny | {"run.learning": "none"})
    assert not (tmp_path / "run" / "devices.npy").exists()
    with pytest.raises(InputError, match="no round of it was evaluated"):
        _ = runs.open_run(tmp_path / "run").devices
