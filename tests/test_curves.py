"""Curves of a comparison, and the pictures that are drawn of them."""

import numpy as np
import pytest
from matplotlib import text as mpl_text

from pmafl import comparison, curves, plots
from pmafl.plots import Point, draw_frontier
from pmafl.plots.comparison import _limits, _styles
from pmafl.rounds import energy_of, length_s
from pmafl.runs import read_records
from pmafl.settings import load

SMALL = {"run.learning": "none", "run.rounds": 4, "fleet.devices": 20, "fleet.samples": 30}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    vary = {"policy.name": ["uniform:count=2", "uniform:count=5", "dual"]}
    found = comparison.grid("mnist", SMALL, vary, [1, 2], tmp_path_factory.mktemp("curves"))
    for job in found:
        comparison.run_job(job.directory, job.settings.to_toml())
    return found


def test_options_come_with_a_name(jobs):
    assert [job.settings.policy.options for job in jobs[::2]] == [{"count": 2}, {"count": 5}, {}]
    scheduled = [len(read_records(job.directory)[0]["scheduled"]) for job in jobs[::2]]
    assert scheduled[:2] == [2, 5]


def test_curves_are_means_over_seeds_against_rounds_seconds_and_joules(jobs):
    found = curves.read_curves(list(curves.by_variation(jobs).values()))
    records = [read_records(job.directory) for job in jobs[:2]]
    samples = np.mean([[row["scheduled_samples"] for row in rows] for rows in records], axis=0)
    assert found.bands["scheduled_samples"][0].mean == pytest.approx(samples)
    joules = np.mean([np.cumsum([energy_of(row).sum() for row in rows]) for rows in records], axis=0)
    assert found.axes["joules"][0] == pytest.approx(joules)
    assert found.axes["round"][0].tolist() == [1, 2, 3, 4]
    assert "accuracy" not in found.bands


def test_rounds_that_were_tested_are_not_thinned_away():
    rounds = 5000
    accuracy = np.full(rounds, np.nan)
    accuracy[9::10] = 0.5
    columns = [
        {"round": np.arange(rounds) + 1.0, "accuracy": accuracy}
        | dict.fromkeys(("error", "loss"), np.full(rounds, np.nan))
    ]
    kept = curves._kept(columns)
    assert np.isfinite(accuracy[kept]).sum() >= curves.MOST_POINTS
    assert kept.size <= 2 * curves.MOST_POINTS
    assert {0, rounds - 1} <= set(kept)


def test_a_round_lasts_until_its_last_device_has_received_computed_and_sent():
    settings = load("mnist", {"cell.deadline_s": 3.0})
    row = {"scheduled": [2, 0], "compute_time_s": [1.0, 0.5], "upload_time_s": [0.5, 0.5]}
    assert length_s(row, settings, np.zeros(())) == 1.5
    assert length_s(row, settings, np.array(0.25)) == 1.75
    assert length_s(row, settings, np.array([1.0, 9.0, 0.0])) == 2.0
    assert length_s({"scheduled": []}, settings, np.zeros(())) == 3.0
    assert np.isnan(length_s(row, load("mnist", {"run.wireless": "none"}), np.zeros(())))


@pytest.mark.heavy
def test_pictures_are_written_as_png_and_pdf(jobs, tmp_path):
    plots.plot_curves(jobs, tmp_path / "curves.png")
    plots.plot_comparison(comparison.tabulate(jobs), tmp_path / "comparison.png")
    for name in ("curves", "comparison"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_every_line_looks_different():
    looks = [(style["color"], str(style["linestyle"])) for style in _styles(30)]
    assert len(set(looks)) == 30


def test_wide_intervals_leave_the_lines_their_room():
    bands = [curves.Band(np.arange(2), np.array([0.5, 0.9]), np.array([50.0, 50.0]))]
    low, high = _limits(bands)
    assert (low, high) == pytest.approx((0.3, 1.1))


def test_an_index_says_which_run_is_where(jobs):
    out = jobs[0].directory.parents[1]
    comparison.write_grid(jobs, out)
    head, *lines = (out / comparison.INDEX).read_text().splitlines()
    assert head == "directory,seed,policy.name"
    assert lines[0] == f"runs/{jobs[0].directory.name},1,uniform:count=2"
    assert [job.directory for job in comparison.read_grid(out)] == [job.directory for job in jobs]


def boxes(drawing):
    drawing.draw_without_rendering()
    notes = (note for axes in drawing.axes for note in axes.findobj(mpl_text.Annotation) if note.get_text())
    return {note.get_text(): mpl_text.Text.get_window_extent(note) for note in notes}


@pytest.mark.parametrize("spread", [(0.3, 3.0), (0.02, 40.0)])
def test_names_of_methods_cover_neither_each_other_nor_points(spread):
    rng = np.random.default_rng(1)
    points = [
        Point(
            f"method-{index}",
            10 + spread[0] * rng.normal(),
            90 - spread[1] * rng.random(),
            0.1,
            0.5,
            index < 3,
        )
        for index in range(16)
    ]
    drawing = draw_frontier(points, "sixteen")
    found = boxes(drawing)
    assert set(found) == {point.name for point in points}
    several = list(found.values())
    assert not any(one.overlaps(other) for one in several for other in several if one is not other)
    frame = drawing.bbox
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in several)


def test_methods_that_are_the_same_share_a_point():
    points = [Point(name, 1.0, 50.0, 0.1, 0.1, True) for name in ("pma", "fedper")]
    assert set(boxes(draw_frontier(points, "twins"))) == {"pma, fedper"}


def test_the_second_panel_shows_all_that_lies_in_its_frame():
    accuracies = {"first": 97.6, "second": 96.0, "third": 95.2, "wide": 92.7, "beside it": 92.1, "far": 40.0}
    points = [
        Point(name, 1.0 + 0.1 * index, accuracy, 0.01, 2.0, index == 0)
        for index, (name, accuracy) in enumerate(accuracies.items())
    ]
    whole, close = draw_frontier(points, "a frame").axes
    (left, right), (low, high) = close.get_xlim(), close.get_ylim()
    framed = {p.name for p in points if left <= p.energy_j <= right and low <= p.accuracy <= high}
    named = {note.get_text() for note in close.findobj(mpl_text.Annotation) if note.get_text()}
    assert framed == named == set(accuracies) - {"far"}
    assert close.get_title() == "the 5 in the dotted frame"
    assert len(whole.patches) == 1
