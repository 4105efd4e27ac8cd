import numpy as np
import pytest

from pmafl import plots, runs
from pmafl.plots.run import deadline_split, energy_against_budget, scheduled_samples
from pmafl.plots.style import columns
from pmafl.settings import load


def record(round_index, devices):
    return {
        "round": round_index,
        "scheduled": list(range(devices)),
        "scheduled_samples": 100 * round_index,
        "compute_energy_j": [0.1] * devices,
        "upload_energy_j": [0.2] * devices,
        "compute_time_s": [0.5] * devices,
        "upload_time_s": [1.5] * devices,
    }


@pytest.fixture
def axes():
    return plots.figure()[1][0, 0]


def heights(axes):
    return [(patch.get_data().values, patch.get_data().baseline) for patch in axes.patches]


def test_each_round_is_a_column_at_its_number(axes):
    scheduled_samples(axes, [record(index, 2) for index in range(4)])
    (patch,) = axes.patches
    values, edges, _ = patch.get_data()
    assert values == pytest.approx([0, 100, 200, 300])
    assert edges == pytest.approx([0.5, 1.5, 2.5, 3.5, 4.5])


def test_uploading_stands_on_computing(axes):
    deadline_split(axes, [record(0, 2), record(1, 0)], 2.0)
    (computing, _), (both, base) = heights(axes)
    assert computing == pytest.approx([0.5, 0])
    assert base == pytest.approx([0.5, 0])
    assert both == pytest.approx([2.0, 0])


@pytest.mark.parametrize("count", [3, 2000, 2001, 100_000])
def test_any_number_of_columns_is_one_outline_of_few_points_with_the_same_mean(axes, count):
    energy_j = np.sort(np.random.default_rng(0).exponential(size=count))
    columns(axes, 0, energy_j)
    (patch,) = axes.patches
    values, edges, _ = patch.get_data()
    assert len(values) == count if count <= 2000 else 1000 < len(values) <= 2000
    assert edges[[0, -1]] == pytest.approx([-0.5, count - 0.5])
    assert np.average(values, weights=np.diff(edges)) == pytest.approx(energy_j.mean())


def test_the_energy_of_many_devices_is_drawn_with_two_outlines(axes):
    energy_against_budget(axes, [record(0, 50_000)], np.full(60_000, 0.4))
    (used, _), (budget, _) = heights(axes)
    assert used[-1] == pytest.approx(0.3)
    assert used[0] == 0
    assert budget == pytest.approx(0.4)


def test_a_run_is_drawn_from_a_path_as_text(tmp_path):
    settings = load("mnist", {"run.learning": "none", "run.rounds": 2, "policy.name": "rs-wel"})
    directory = str(tmp_path / "run")
    runs.create(directory, settings)
    runs.execute(directory)
    pictures = plots.plot_run(directory)
    assert [picture.name for picture in pictures] == [
        "overview.png", "scheduled.png", "energy.png", "queues.png", "deadline.png"
    ]  # fmt: skip
    assert all(picture.stat().st_size > 1000 for picture in pictures)
