"""What the page of a run carries is what the run's directory says, and little enough of it."""

import json
from importlib import resources

import numpy as np
import pytest
from typer.testing import CliRunner

import pmafl
from pmafl import comparison
from pmafl.cli import app
from pmafl.errors import InputError
from pmafl.page import story, write_page, write_run_page
from pmafl.page.packing import pack
from pmafl.page.run import run_page
from pmafl.page.story import choose_steps
from pmafl.runs.columns import dtype_for
from tests.page.pages import SMALL, data_of, small_run, unpack

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("page") / "run")


@pytest.fixture(scope="module")
def page_data(run_directory):
    return data_of(write_run_page(run_directory).read_text("utf-8"))


def test_trees_of_arrays_come_back_as_they_were():
    tree = {"a": [1, None, "<b>"], "numbers": {"x": np.arange(3.0), "y": np.arange(5, dtype=np.int32)}}
    found = unpack(pack(tree))
    assert found["a"] == tree["a"]
    for name in ("x", "y"):
        np.testing.assert_array_equal(found["numbers"][name], tree["numbers"][name])


def test_numbers_that_are_none_leave_no_hole_in_the_file():
    assert unpack(pack({"x": float("nan"), "y": float("inf")})) == {"x": None, "y": None}


def test_rounds_on_the_page_are_those_of_the_records(run_directory, page_data):
    rows, part = pmafl.open_run(run_directory).rows, page_data["part"]
    points, turns = part["points"], part["turns"]
    assert points["round"].tolist() == [row["round"] for row in rows]
    for name in (
        "scheduled_samples",
        "mean_energy_j",
        "worst_energy_j",
        "mean_queue_j",
        "max_queue_j",
        "gap",
    ):
        assert points[name].tolist() == [row[name] for row in rows]
    assert part["counts"].tolist() == [len(row["scheduled"]) for row in rows]
    assert turns["device"].tolist() == [device for row in rows for device in row["scheduled"]]
    for name in story.TURNS:
        np.testing.assert_allclose(
            turns[name],
            np.concatenate([row.get(name, np.zeros(len(row["scheduled"]))) for row in rows]),
            rtol=1e-6,
        )


def test_clocks_and_powers_follow_from_times_and_energies(run_directory, page_data):
    turns = page_data["part"]["turns"]
    run = pmafl.open_run(run_directory)
    kappa = run.settings.fleet.energy_coefficient
    work_cycles = turns["frequency_hz"] * turns["compute_time_s"]
    np.testing.assert_allclose(
        kappa * work_cycles * turns["frequency_hz"] ** 2, turns["compute_energy_j"], rtol=1e-4
    )
    np.testing.assert_allclose(turns["power_w"] * turns["upload_time_s"], turns["upload_energy_j"], rtol=1e-4)


def test_channels_are_those_that_the_run_drew(run_directory, page_data):
    run, gain = pmafl.open_run(run_directory), page_data["part"]["gain"]
    from pmafl.world import channel_gains

    expected = channel_gains(run.wireless_world)
    np.testing.assert_allclose(gain["values"].reshape(expected.shape), expected, rtol=1e-6)


def test_everyone_was_scheduled_or_has_a_reason(page_data):
    part, devices = page_data["part"], page_data["head"]["total_devices"]
    starts = np.concatenate([[0], np.cumsum(part["counts"])])
    assert [index for index, _ in part["reasons"]] == part["frames"].tolist()
    for (index, (left, sentences)), first, last in zip(part["reasons"], starts, starts[1:], strict=False):
        scheduled = part["turns"]["device"][first:last].tolist()
        assert sorted([*left.tolist(), *scheduled]) == list(range(devices)), index
        assert len(sentences) == left.size
        assert all(sentences)


def test_reasons_of_a_policy_with_prices_are_its_own(tmp_path):
    directory = small_run(tmp_path / "run", **{"policy.name": "steady"})
    reasons = data_of(write_run_page(directory).read_text("utf-8"))["part"]["reasons"]
    sentences = [sentence for _, (_, sentences) in reasons for sentence in sentences]
    assert sentences
    priced = [sentence for sentence in sentences if not sentence.startswith("was not chosen")]
    assert len(priced) > len(sentences) / 2, sentences


def test_a_page_loads_nothing_and_is_small(run_directory):
    html = (run_directory / "page.html").read_text("utf-8")
    assert "default-src 'none'" in html
    assert "connect-src 'none'" in html
    assert len(html.encode()) < 3e6


def test_hostile_names_do_not_become_part_of_the_page(tmp_path):
    names = f"{HOSTILE}{'😀' * 40}"
    directory = small_run(tmp_path / names.replace("/", "\u2215"))
    html = write_run_page(directory).read_text("utf-8")
    assert "alert(1)" not in html
    assert data_of(html)["head"]["name"] == directory.name


def test_large_runs_are_thinned_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(story, "MOST_CELLS", 24)
    monkeypatch.setattr(story, "MOST_REASONS", 24)
    monkeypatch.setattr(story, "MOST_DEVICES", 8)
    monkeypatch.setattr(story, "MOST_TURNS", 10)
    data = data_of(write_run_page(small_run(tmp_path / "run")).read_text("utf-8"))
    head, part = data["head"], data["part"]
    assert head["total_devices"] == 15
    assert head["devices"]["number"].size == 8
    assert part["frames"].tolist() == [*range(0, 6, head["steps"]["detail"]), 5]
    assert part["points"]["round"].size == 6
    assert part["states"]["queue_j"].size == 8 * part["frames"].size
    assert part["turns"]["device"].max() < 8
    assert len(head["notes"]) == 4


def test_thinned_pages_know_queues_and_energy_of_all_rounds(tmp_path, monkeypatch):
    run = pmafl.open_run(small_run(tmp_path / "run"))
    monkeypatch.setattr(story, "MOST_TURNS", 10)
    part = data_of(write_run_page(run).read_text("utf-8"))["part"]
    for name, record in (("queue_j", "mean_queue_j"), ("spent_j", "mean_energy_j")):
        shown = part["states"][name].reshape(-1, 15).mean(axis=1)
        factor = part["frames"] + 1 if name == "spent_j" else 1
        expected = np.array([run.rows[index][record] for index in part["frames"]]) * factor
        np.testing.assert_allclose(shown, expected, rtol=1e-5)


@pytest.mark.parametrize(("devices", "rounds"), [(100, 100), (1000, 1000), (10_000, 1000), (20, 1_000_000)])
def test_steps_keep_a_page_within_its_limits(devices, rounds):
    for turns in (0, rounds, devices * rounds):
        steps = choose_steps(devices, rounds, turns)
        assert rounds / steps.curve <= story.MOST_CURVE_POINTS
        assert turns / steps.detail <= story.MOST_TURNS
        assert devices * rounds / steps.table <= story.MOST_CELLS
        assert devices * rounds / steps.tests <= story.MOST_CELLS
        assert devices * rounds / steps.reasons <= story.MOST_REASONS
    assert choose_steps(100, 100, 2000).detail == 1


def test_a_run_of_which_no_round_is_done_has_a_page(tmp_path):
    pmafl.create_run(tmp_path / "run", pmafl.load_settings("mnist", SMALL))
    data = data_of(write_run_page(tmp_path / "run").read_text("utf-8"))
    assert data["part"]["frames"].size == 0


def test_learning_without_a_cell_has_a_page_without_energies(tmp_path):
    rows = [
        {"round": 0, "scheduled": [1, 3], "scheduled_samples": 600, "objective": None, "accuracy": 0.5}
        | {"train_loss": [1.0, None], "failed": [], "dropped": []}
        | {key: [0.0, 0.0] for key in story.TURNS}
    ]
    settings = pmafl.load_settings(
        "mnist", SMALL | {"run.learning": "full", "run.wireless": "none", "policy.name": "uniform"}
    )
    run = pmafl.runs.Run(tmp_path, settings)
    run.rows = rows
    data = data_of(run_page(run))
    assert "division" not in data["head"]["figures"]
    assert np.isnan(data["part"]["points"]["seconds"]).all()
    assert len(data["part"]["reasons"][0][1][1]) == 13


def test_accuracies_are_those_of_the_file_of_devices(tmp_path):
    """Which is here written as the run would: a run that learns takes too long for this."""
    directory = small_run(tmp_path / "run")
    accuracy = np.random.default_rng(0).uniform(size=(3, 15))
    rows = np.zeros(3, dtype_for(15))
    rows["round"], rows["accuracy"] = [1, 3, 5], accuracy
    np.save(directory / "devices.npy", rows)
    table = data_of(write_run_page(directory).read_text("utf-8"))["part"]["accuracy"]
    assert table["rounds"].tolist() == [1, 3, 5]
    np.testing.assert_allclose(table["values"].reshape(3, 15), accuracy, rtol=1e-6)


def test_view_writes_the_page_and_says_where(run_directory, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    (run_directory / "page.html").unlink(missing_ok=True)
    result = CliRunner().invoke(app, ["view", str(run_directory)])
    assert result.exit_code == 0
    assert (run_directory / "page.html").is_file()
    assert "page.html" in result.stdout


def test_what_is_nothing_to_look_at_is_one_line(tmp_path):
    with pytest.raises(InputError, match="nothing to look at"):
        write_page(tmp_path)


def test_a_round_of_a_device_is_called_its_turn_as_elsewhere(page_data):
    assert "turns" in page_data["head"]["glossary"]
    assert "participation" not in page_data["head"]["glossary"]
    script = (resources.files("pmafl.page") / "run-data.js").read_text("utf-8")
    assert 'label: "turns"' in script


def test_the_summary_and_the_command_are_on_the_page(run_directory, page_data):
    summary = json.loads((run_directory / "summary.json").read_text())
    again = dict(page_data["head"]["again"])
    assert again["seed"] == str(summary["seed"])
    assert f"numpy {summary['versions']['numpy']}" in again["versions"]
    assert again["command"].startswith("pmafl run ")
    assert page_data["head"]["settings"] == pmafl.open_run(run_directory).settings.to_toml()


AWAKE = {
    "fleet.circuit_power_w": 0.05,
    "fleet.receive_power_w": 0.1,
    "fleet.connect_energy_j": 0.01,
    "fleet.budget_j": 0.2,
    "cell.downlink_bps": 1e8,
}


def test_receiving_and_circuits_count_in_times_and_energies(tmp_path):
    run = pmafl.open_run(small_run(tmp_path / "run", **AWAKE))
    data = data_of(write_run_page(run).read_text("utf-8"))
    points, turns = data["part"]["points"], data["part"]["turns"]
    received_s = 533_248 * 32 / 1e8  # what the server sends is not rounded
    np.testing.assert_allclose(data["head"]["devices"]["received_s"], received_s, rtol=1e-6)
    lengths_s = [
        received_s + max(np.add(row["compute_time_s"], row["upload_time_s"])) if row["scheduled"] else 2.0
        for row in run.rows
    ]
    np.testing.assert_allclose(np.diff(points["seconds"], prepend=0.0), lengths_s, rtol=1e-9)
    assert max(lengths_s) == pytest.approx(2.0)  # devices that wait for the band use all of the deadline
    parts = ("compute_energy_j", "upload_energy_j", "awake_energy_j")
    spent_j = [sum(part) for row in run.rows for part in zip(*(row[name] for name in parts), strict=True)]
    np.testing.assert_allclose(turns["energy_j"], spent_j, rtol=1e-6)
    np.testing.assert_allclose(points["joules"][-1], sum(spent_j), rtol=1e-9)
    np.testing.assert_allclose(points["mean_energy_j"][-1] * 15 * 6, sum(spent_j), rtol=1e-9)


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """Values to predict from four numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(180, 4)).astype(np.float32)
    path = tmp_path_factory.mktemp("values") / "values.npz"
    np.savez(path, x=x, y=x @ [1.0, -2.0, 0.5, 3.0] + 0.01 * rng.normal(size=180))
    return path


def predicting(values):
    return {
        "data.dataset": str(values),
        "data.partition": "iid",
        "fleet.devices": 6,
        "fleet.samples": 20,
        "learning.operations_per_sample": "count",
        "run.learning": "full",
        "run.rounds": 3,
    }


def test_predicted_values_have_errors_in_place_of_accuracies(tmp_path, values):
    run = pmafl.open_run(small_run(tmp_path / "run", **predicting(values)))
    data = data_of(write_run_page(run).read_text("utf-8"))
    head, part = data["head"], data["part"]
    assert head["score"] == {"title": "Error", "label": "mean absolute error", "factor": 1.0, "unit": ""}
    assert "accuracy" not in head["glossary"]
    assert not any("accuracy" in said for said in head["meanings"].values())
    assert part["points"]["accuracy"].tolist() == [row["error"] for row in run.rows]
    assert part["points"]["worst_tenth_accuracy"].tolist() == [row["worst_tenth_error"] for row in run.rows]
    scores = part["accuracy"]["values"].reshape(-1, 6)
    np.testing.assert_allclose(scores.mean(axis=1), [row["error"] for row in run.rows], rtol=1e-5)


def test_comparisons_of_predicted_values_have_errors(tmp_path, values):
    for job in comparison.grid(
        "mnist", SMALL | predicting(values), {"policy.name": ["dual", "ocean"]}, range(1), tmp_path
    ):
        small_run(job.directory, **predicting(values), **dict(job.variation), **{"run.seed": job.seed})
    data = data_of(write_page(tmp_path).read_text("utf-8"))
    assert {"error", "worst_tenth_error", "loss"} < data["curves"].keys()
    assert "accuracy" not in data["curves"]
    assert "error" in data["glossary"]
    final = pmafl.open_run(job.directory).rows[-1]
    np.testing.assert_allclose(data["curves"]["error"][1]["mean"][-1], final["error"])
