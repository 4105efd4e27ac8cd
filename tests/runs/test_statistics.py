"""A network with BatchNorm through a run: stopped and resumed to the bit, whoever keeps its statistics."""

import pytest

from pmafl import runs
from tests.runs.directories import Stop, commit_every_round, contents, run, stop_after

RESNET = {
    "learning.model": "tests.learning.user_models:small_resnet",
    "learning.shared_layers": 3,
    "learning.iterations": 2,
    "run.rounds": 4,
    "run.evaluate_every": 2,
    "cell.bandwidth_hz": 1e8,
}


@pytest.mark.parametrize(
    ("algorithm", "buffers"),
    [("pma", "shared"), ("fedavg", "shared"), ("local", "shared"), ("fedavg", "personal"), ("pma", "frozen")],
)
def test_a_batchnorm_resnet_goes_on_as_if_it_had_not_stopped(tmp_path, tiny, monkeypatch, algorithm, buffers):
    commit_every_round(monkeypatch)
    settings = tiny | RESNET | {"learning.algorithm": algorithm, "learning.buffers": buffers}
    run(tmp_path / "straight", settings)
    with pytest.raises(Stop):
        run(tmp_path / "stopped", settings, [stop_after(1)])
    runs.execute(tmp_path / "stopped")
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")
    assert sum(len(record["scheduled"]) for record in runs.read_records(tmp_path / "straight")) > 6
