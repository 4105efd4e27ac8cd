import subprocess
import sys

import numpy as np
import pytest

from pmafl import checks, comparison, data
from pmafl.errors import InputError
from pmafl.settings import load
from pmafl.world import build_world

WIRELESS = {"run.learning": "none", "run.rounds": 8, "fleet.devices": 20}


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"policy.name": "nope"}, "policy.name = 'nope': there is no such policy"),
        ({"policy.name": "nowhere:policy"}, "no module 'nowhere'"),
        ({"policy.options": {"speed": 3}}, "speed"),
        ({"policy.name": "ocean", "policy.options": {"compute_fraction": 2.0}}, "compute_fraction is 2"),
        ({"policy.name": "uniform", "policy.options": {"count": 21}}, "must be from 1 to 20"),
        ({"policy.name": "exhaustive"}, "16"),
        ({"policy.name": "dual", "run.wireless": "none", "run.learning": "full"}, "needs the radio"),
        ({"learning.algorithm": "nope"}, "learning.algorithm = 'nope'"),
        ({"learning.model": "nope"}, "learning.model = 'nope'"),
        ({"learning.model": "nowhere:model"}, "no module 'nowhere'"),
        ({"learning.shared_layers": 9}, "must be 0 to 4"),
        ({"fleet.devices": 21}, "do not divide evenly"),
        ({"fleet.samples": 6_000, "cell.deadline_s": 100.0}, "the training set has 60000"),
        ({"cell.deadline_s": 1e-3}, "no device can take part"),
        ({"cell.gain_trace": "nowhere.npy"}, "cannot be read"),
        ({"data.dataset": "nowhere.npz"}, "No such file"),
        ({"data.dataset": "mnits"}, "did you mean 'mnist'?"),
        ({"run.learning": "full", "data.directory": "nowhere"}, "no such directory"),
    ],
)
def test_what_cannot_run_is_refused_before_the_first_run(overrides, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = load("mnist", WIRELESS)
    checks.check([good])
    with pytest.raises(InputError, match=part):
        checks.check([good, load("mnist", WIRELESS | overrides)])


def no_data(*_):
    raise AssertionError("data were fetched")


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy.name": "nope"},
        {"policy.options": {"speed": 3}},
        {"learning.algorithm": "nope"},
        {"learning.options": {"speed": 3}},
        {"learning.model": "nope"},
        {"learning.model_options": {"speed": 3}},
        {"learning.upload": "nope"},
        {"learning.upload_options": {"speed": 3}},
        {"cell.channel": "nope"},
        {"fleet.devices": 7},
    ],
    ids=str,
)
def test_what_no_data_are_needed_for_is_refused_before_data_are_fetched(wrong, monkeypatch):
    monkeypatch.setattr(data, "load_data", no_data)
    (key,) = wrong
    part = {str: "nope", dict: "speed", int: "do not divide evenly"}[type(wrong[key])]
    settings = load("mnist", wrong)
    with pytest.raises(InputError, match=part):
        build_world(settings)
    with pytest.raises(InputError, match=part):
        checks.check([load("mnist"), settings])


def test_a_gpu_that_is_not_there_is_missed_only_where_the_run_would_be(tiny, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    settings = load("mnist", tiny | {"learning.device": "cuda"})
    checks.check([settings], here=False)
    with pytest.raises(InputError, match="torch finds no GPU"):
        checks.check([settings])


def test_a_trace_that_is_too_short_for_one_of_many_is_refused(tmp_path):
    np.save(tmp_path / "gains.npy", np.full((10, 20), 1e-8))
    trace = WIRELESS | {"cell.gain_trace": str(tmp_path / "gains.npy")}
    checks.check([load("mnist", trace)])
    with pytest.raises(InputError, match="holds 10 rounds"):
        checks.check([load("mnist", trace), load("mnist", trace | {"run.rounds": 11})])


def test_what_many_settings_share_is_looked_at_once(tiny, monkeypatch):
    calls = {"data": 0, "world": 0, "play": 0}

    def counted(name, function):
        def count(*arguments):
            calls[name] += 1
            return function(*arguments)

        return count

    monkeypatch.setattr(data, "load_data", counted("data", data.load_data))
    monkeypatch.setattr(checks, "wireless_world", counted("world", checks.wireless_world))
    monkeypatch.setattr(checks, "play", counted("play", checks.play))
    changes = [
        {"run.seed": seed, "policy.tradeoff": tradeoff, "policy.name": policy}
        for seed in range(4)
        for tradeoff in (0.1, 0.2, 0.3)
        for policy in ("dual", "ocean")
    ]
    checks.check(load("mnist", tiny | change) for change in changes)
    assert calls == {"data": 1, "world": 4 + 1, "play": 2}  # a world for each seed, and the second policy


def test_checking_needs_no_torch(tmp_path):
    script = (
        "import sys\nfrom pmafl import checks\nfrom pmafl.settings import load\n"
        "checks.check([load('mnist')], here=False)\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_finished_runs_are_not_checked_again(tmp_path, tiny):
    jobs = comparison.grid("mnist", tiny | {"run.rounds": 1}, {}, [1], tmp_path)
    comparison.run_locally(jobs, 1, lambda done, total: None)
    gone = [
        comparison.Job(
            job.variation, job.seed, load("mnist", tiny | {"data.dataset": "gone.npz"}), job.directory
        )
        for job in jobs
    ]
    comparison.check(gone)


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="give another --out"):
        comparison.check(comparison.grid("mnist", WIRELESS, {}, [1], tmp_path / "file"))
