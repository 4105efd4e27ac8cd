import csv
import io
import json
import math
import multiprocessing
import random
import threading
import time

import numpy as np
import pytest

from pmafl import comparison, runs
from pmafl.commands.compare import variations
from pmafl.errors import InputError
from pmafl.page.comparison import comparison_data
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


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ({"run.seed": [1, 2]}, "--vary run.seed: every variation has every seed; give --seeds"),
        ({"cell.deadline_s": [2, 2.0]}, r"deadline_s=2\.0 is the same as deadline_s=2; name it once"),
    ],
)
def test_a_run_stands_for_one_variation(vary, said, tmp_path):
    with pytest.raises(InputError, match=said):
        comparison.grid("mnist", WIRELESS, vary, [1, 2], tmp_path)


def test_a_setting_is_varied_once():
    with pytest.raises(InputError, match=r"'policy.name=ocean': policy.name is varied already"):
        variations(["policy=dual", "policy.name=ocean"])


@pytest.mark.parametrize(
    ("mean", "half_width", "shown"),
    [
        (1.234e-4, 5.6e-6, "0.000123 ± 5.6e-06"),
        (0.11074, 0.0023, "0.1107 ± 0.0023"),
        (12.345, 0.5, "12.35 ± 0.50"),
        (12345.6, 78.9, "12346 ± 79"),
        (0.0, 0.0, "0.0000 ± 0.0000"),
    ],
)
def test_numbers_of_any_size_are_shown(mean, half_width, shown):
    assert comparison.show(comparison.Estimate(mean, half_width), "energy_per_device_round_j") == shown


def test_equal_numbers_have_no_spread_whatever_rounding_leaves():
    assert comparison.estimate(np.full(100, 10_000 / 3)).half_width == 0
    assert comparison.estimate(np.array([1.0, 1.0 + 4e-16])).half_width == 0
    assert comparison.estimate(np.array([1.0, 1.0 + 1e-9])).half_width > 0
    assert comparison.estimate(np.array([-1.0, 1.0])).half_width > 0


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
    assert latex.count(r"\\") == 1 + len(rows) + latex.count("difference")
    assert latex.count("difference") == sum(bool(row.differences) for row in rows) == 2
    assert r"deadline\_s=2.5" in latex


def test_training_that_diverged_is_said_beside_its_accuracy(finished, tiny, tmp_path):
    vary = {"learning.extractor_rate": [0.05, 1e6]}
    jobs = comparison.grid("mnist", tiny | {"run.rounds": 1}, vary, [1, 2], tmp_path)
    for job in jobs:
        comparison.run_job(job.directory, job.settings.to_toml())
    (said,) = comparison.diverged(jobs)
    assert said == "extractor_rate=1000000.0: the training diverged with 2 of 2 seeds"
    comparison.write_grid(jobs, tmp_path)
    data, _ = comparison_data(tmp_path)
    assert data["notes"] == [f"{said}."]
    assert comparison.diverged(finished) == []  # nothing was trained


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


def contents(jobs):
    return [(job.directory / "rounds.jsonl").read_bytes() for job in jobs]


@pytest.mark.heavy
def test_killed_workers_change_nothing(tmp_path, capsys):
    overrides, vary = WIRELESS | {"run.rounds": 150}, {"policy.name": ["dual", "ocean"]}
    undisturbed = comparison.grid("mnist", overrides, vary, [1, 2], tmp_path / "undisturbed")
    comparison.run_locally(undisturbed, 2, quiet)
    jobs = comparison.grid("mnist", overrides, vary, [1, 2], tmp_path / "disturbed")
    over, killed, rng = threading.Event(), [], random.Random(3)

    def kill():
        while len(killed) < comparison.TRIES - 1 and not over.is_set():
            time.sleep(0.01)
            begun = list(tmp_path.glob("disturbed/runs/*/rounds.jsonl"))
            if len(begun) > len(killed) and (workers := multiprocessing.active_children()):
                time.sleep(rng.uniform(0, 0.5))
                victim = rng.choice(workers)
                victim.kill()
                killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        comparison.run_locally(jobs, 2, quiet)
    finally:
        over.set()
        killer.join()
    assert len(killed) == comparison.TRIES - 1
    assert contents(jobs) == contents(undisturbed)
    assert comparison.to_csv(comparison.tabulate(jobs)) == comparison.to_csv(comparison.tabulate(undisturbed))
    assert multiprocessing.active_children() == []


DEADLY = """
import os, signal

def policy(problem, rng):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """A grid of which one run kills its workers; its first seed runs first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (tmp_path / "deadly.py").write_text(DEADLY)
    names = ["deadly:policy", "dual", "ocean"]
    return comparison.grid("mnist", WIRELESS, {"policy.name": names}, [1], tmp_path / "out")


def check_that_only_the_deadly_one_failed(jobs, error, warnings):
    assert str(error).startswith(f"policy=deadly:policy, seed 1 ({jobs[0].directory}): 3 workers died of it")
    assert "1 of 3 runs failed" in str(error)
    assert warnings.count("warning: policy=deadly:policy, seed 1") == comparison.TRIES - 1
    assert warnings.count("\n") == comparison.TRIES - 1
    assert comparison.unfinished(jobs) == jobs[:1]


@pytest.mark.heavy
def test_a_job_that_kills_its_workers_is_named_and_the_others_are_done(deadly, capsys):
    seen = []
    with pytest.raises(InputError) as error:
        comparison.run_locally(deadly, 2, lambda done, total: seen.append((done, total)))
    check_that_only_the_deadly_one_failed(deadly, error.value, capsys.readouterr().err)
    assert seen == [(1, 3), (2, 3)]


def test_a_job_that_fails_does_not_stop_the_others(tmp_path, capsys):
    jobs = comparison.grid("mnist", WIRELESS, {"policy.name": ["nope", "dual", "ocean"]}, [1], tmp_path)
    with pytest.raises(InputError, match=r"policy=nope, seed 1 .*policy.name = 'nope'.*1 of 3 runs failed"):
        comparison.run_locally(jobs, 1, quiet)
    assert comparison.unfinished(jobs) == jobs[:1]
    assert "the others go on" in capsys.readouterr().err


def test_variations_are_read_from_the_command_line():
    found = variations(["policy=dual,ocean", "cell.deadline_s=1.5,2"])
    assert found == {"policy.name": ["dual", "ocean"], "cell.deadline_s": [1.5, 2]}
    found = variations(["policy=uniform:count=5,dual", "fleet.samples=[10,20],30"])
    assert found == {
        "policy.name": ["uniform:count=5", "dual"],
        "fleet.samples": [(10, 20), 30],
    } or found == {
        "policy.name": ["uniform:count=5", "dual"],
        "fleet.samples": [[10, 20], 30],
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("dual", {"policy.name": "dual"}),
        ("mine.policies:best", {"policy.name": "mine.policies:best"}),
        ("mine:best:count=5:names=['a:b','c']", {"policy.name": "mine:best", "policy.options": {"count": 5}}),
    ],
)
def test_a_name_may_have_options(value, expected):
    found = comparison.with_options("policy.name", value)
    if "policy.options" in found:
        assert found["policy.options"].pop("names") == ["a:b", "c"]
    assert found == expected
    assert comparison.with_options("cell.deadline_s", 2.0) == {"cell.deadline_s": 2.0}


@pytest.mark.parametrize(
    "value", ["uniform:count=", "=5", "uniform:=5", "uniform:count=5:count=6", "a:b=1:c"]
)
def test_bad_options_are_one_clear_line(value):
    with pytest.raises(InputError, match=r"policy\.name = "):
        variations([f"policy=dual,{value}"])


@pytest.mark.heavy
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


@pytest.mark.heavy
def test_ray_gives_up_a_job_that_kills_its_workers(deadly, capsys):
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": comparison.WORKER_ENVIRONMENT},
    )
    capsys.readouterr()
    try:
        with pytest.raises(InputError) as error:
            comparison.run_on_ray(deadly, None, quiet)
    finally:
        ray.shutdown()
    warnings = [line for line in capsys.readouterr().err.splitlines(True) if line.startswith("warning: ")]
    check_that_only_the_deadly_one_failed(deadly, error.value, "".join(warnings))
