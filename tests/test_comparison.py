import csv
import io
import json
import math

import numpy as np
import pytest

from pmafl import comparison, runs
from pmafl.commands.compare import variations
from pmafl.errors import InputError
from pmafl.plots import plot_comparison

VARY = {"policy.name": ["dual", "ocean"], "cell.deadline_s": [2.0, 2.5]}
WIRELESS = {"run.learning": "none", "run.rounds": 8, "fleet.devices": 20}


def quiet(done, total):
    pass


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    jobs = comparison.grid("mnist", WIRELESS, VARY, [1, 2, 3], tmp_path_factory.mktemp("compare"))
    comparison.run_locally(jobs, 2, quiet)
    return jobs


def test_a_grid_is_every_combination_for_every_seed(tmp_path):
    jobs = comparison.grid("mnist", WIRELESS, VARY, [1, 2, 3], tmp_path)
    assert len(jobs) == 2 * 2 * 3
    assert len({job.directory for job in jobs}) == 12
    assert {job.settings.cell.deadline_s for job in jobs} == {2.0, 2.5}


def test_wrong_settings_show_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match=r"cell\.deadline_s = -1"):
        comparison.grid("mnist", WIRELESS, {"cell.deadline_s": [2.0, -1]}, [1], tmp_path)
    assert not list(tmp_path.iterdir())


def test_done_runs_are_skipped(finished):
    assert comparison.unfinished(finished) == []
    assert (
        len(comparison.unfinished(comparison.grid("mnist", WIRELESS, VARY, [4], finished[0].directory))) == 4
    )


def test_means_intervals_and_pairs_are_those_of_the_summaries(finished):
    rows = {row.variation: row for row in comparison.tabulate(finished)}
    metric = "scheduled_samples_per_round"

    def values(policy, deadline_s):
        wanted = (("policy.name", policy), ("cell.deadline_s", deadline_s))
        return np.array([runs.read_summary(j.directory)[metric] for j in finished if j.variation == wanted])

    for deadline_s in (2.0, 2.5):
        found = rows[("policy.name", "ocean"), ("cell.deadline_s", deadline_s)]
        ocean, dual = values("ocean", deadline_s), values("dual", deadline_s)
        assert found.metrics[metric].mean == pytest.approx(ocean.mean())
        # Student's t with 2 degrees of freedom: 4.3027 at 97.5%.
        assert found.metrics[metric].half_width == pytest.approx(4.302653 * ocean.std(ddof=1) / math.sqrt(3))
        assert found.differences[metric].mean == pytest.approx((ocean - dual).mean())
        assert rows[("policy.name", "dual"), ("cell.deadline_s", deadline_s)].differences == {}


def test_tables_hold_the_same_numbers(finished):
    rows = comparison.tabulate(finished)
    lines = list(csv.DictReader(io.StringIO(comparison.to_csv(rows))))
    assert [line["policy.name"] for line in lines] == ["dual", "dual", "ocean", "ocean"]
    for row, line in zip(rows, lines, strict=True):
        assert float(line["energy_per_device_round_j_mean"]) == row.metrics["energy_per_device_round_j"].mean
    latex = comparison.to_latex(rows)
    assert latex.count(r"\\") == 1 + len(rows)
    assert r"deadline\_s=2.5" in latex


def test_a_comparison_is_drawn(finished, tmp_path):
    assert plot_comparison(comparison.tabulate(finished), tmp_path / "plot.png").stat().st_size > 10_000


def test_parallel_runs_equal_a_run_alone(finished, tmp_path):
    job = finished[0]
    runs.create(tmp_path / "alone", job.settings)
    runs.execute(tmp_path / "alone")
    assert (tmp_path / "alone/rounds.jsonl").read_bytes() == (job.directory / "rounds.jsonl").read_bytes()


def test_an_interrupted_comparison_goes_on(tmp_path):
    jobs = comparison.grid("mnist", WIRELESS, {"policy.name": ["dual"]}, [1, 2], tmp_path)

    def stop(world, record):
        if record.round == 3:
            raise KeyboardInterrupt

    runs.create(jobs[0].directory, jobs[0].settings)
    with pytest.raises(KeyboardInterrupt):
        runs.execute(jobs[0].directory, [stop])
    comparison.run_locally(comparison.unfinished(jobs), 1, quiet)
    assert comparison.unfinished(jobs) == []
    assert len(json.loads((jobs[0].directory / "summary.json").read_text())) > 5


def test_variations_are_read_from_the_command_line():
    found = variations(["policy=dual,ocean", "cell.deadline_s=1.5,2"])
    assert found == {"policy.name": ["dual", "ocean"], "cell.deadline_s": [1.5, 2]}


def test_ray_finishes_the_runs_of_a_killed_node(tmp_path):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    overrides = WIRELESS | {"run.rounds": 60}
    local = comparison.grid(
        "mnist", overrides, {"policy.name": ["dual", "ocean"]}, [1, 2, 3], tmp_path / "local"
    )
    comparison.run_locally(local, 2, quiet)
    jobs = comparison.grid(
        "mnist", overrides, {"policy.name": ["dual", "ocean"]}, [1, 2, 3], tmp_path / "ray"
    )
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        doomed = cluster.add_node(num_cpus=1)
        ray.init(
            address=cluster.address,
            log_to_driver=False,
            runtime_env={"env_vars": comparison.WORKER_ENVIRONMENT},
        )

        def kill_one(done, total):
            if done == 1:
                cluster.remove_node(doomed, allow_graceful=False)

        comparison.run_on_ray(jobs, None, kill_one)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert comparison.to_csv(comparison.tabulate(jobs)) == comparison.to_csv(comparison.tabulate(local))
