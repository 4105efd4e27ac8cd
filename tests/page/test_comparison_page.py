"""The page of a comparison has the numbers of its table, and leads to its runs."""

import numpy as np
import pytest
from typer.testing import CliRunner

from pmafl import comparison
from pmafl.cli import app
from pmafl.errors import InputError
from pmafl.page import write_page
from pmafl.settings import load
from tests.page.pages import SMALL, data_of, small_run

VARIED = {"policy.name": ["dual", "ocean"]}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison")
    for job in comparison.grid("mnist", SMALL, VARIED, range(2), out):
        small_run(job.directory, **dict(job.variation), **{"run.seed": job.seed})
    return out


@pytest.fixture(scope="module")
def data(directory):
    return data_of(write_page(directory).read_text("utf-8"))


def test_runs_are_told_apart_by_what_differs(directory):
    jobs = comparison.read_grid(directory)
    assert {job.variation for job in jobs} == {(("policy.name", "dual"),), (("policy.name", "ocean"),)}
    assert sorted(job.seed for job in jobs) == [0, 0, 1, 1]


def test_a_grid_is_read_as_it_was_noted_down(directory, tmp_path):
    jobs = comparison.grid("mnist", SMALL, VARIED, range(2), directory)
    comparison.write_grid(jobs, directory)
    try:
        found = comparison.read_grid(directory)
        assert [(job.variation, job.seed, job.directory) for job in found] == [
            (job.variation, job.seed, job.directory) for job in jobs
        ]
    finally:
        (directory / comparison.GRID).unlink()


def test_the_table_is_that_of_the_comparison(directory, data):
    rows = comparison.tabulate(comparison.read_grid(directory))
    names = [name for name, _ in data["table"]["metrics"]]
    for row, means, differences in zip(
        rows, data["table"]["means"], data["table"]["differences"], strict=True
    ):
        for name, mean, difference in zip(names, means, differences, strict=True):
            assert mean[1] == pytest.approx(row.metrics[name].mean)
            expected = row.differences.get(name)
            assert difference[1] == (None if expected is None else pytest.approx(expected.mean))


def test_curves_are_means_over_seeds(directory, data):
    jobs = comparison.read_grid(directory)
    first = [job for job in jobs if job.variation == jobs[0].variation]
    from pmafl.runs import read_records

    queues = np.mean([[r["mean_queue_j"] for r in read_records(job.directory)] for job in first], axis=0)
    np.testing.assert_allclose(data["curves"]["mean_queue_j"][0]["mean"], queues)
    energy = [15 * 6 * read_records(job.directory)[-1]["mean_energy_j"] for job in first]
    assert data["axes"]["joules"][0][-1] == pytest.approx(np.mean(energy))


def test_runs_get_pages_that_the_page_leads_to(directory, data):
    for runs in data["runs"]:
        for _, run, there in runs:
            assert there
            assert (directory / run / "page.html").is_file()


def test_a_damaged_note_is_one_line(tmp_path, directory):
    (tmp_path / "runs").symlink_to(directory / "runs")
    (tmp_path / comparison.GRID).write_text("{")
    result = CliRunner().invoke(app, ["view", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "run the comparison again" in str(result.exception)


def test_a_comparison_without_a_finished_run_is_one_line(tmp_path):
    import pmafl

    pmafl.create_run(tmp_path / "runs" / "a", load("mnist", SMALL))
    with pytest.raises(InputError, match="none of its 1 runs is finished"):
        write_page(tmp_path)
