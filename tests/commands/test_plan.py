import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pmafl.cli import app
from pmafl.errors import InputError
from pmafl.settings import load

SMALL = """
extends = "tracker"
[fleet]
devices = 25
battery_wh = 5
[cell]
channel = "exponential"
options = {}
[plan]
deadline_s = [0.2, 4]
rounds_per_day = [24, 96]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text(SMALL)
    return str(path)


def plan(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments])


def test_it_shows_choices_reasons_prices_and_rings(file):
    result = plan(file, "--goal", "battery >= 1 year")
    assert result.exit_code == 0
    for part in (
        "unbeaten",
        "recommended (->)",
        "take part",
        "10% more band",
        "by distance",
        "median battery",
    ):
        assert part in result.stdout


def test_json_has_every_choice_and_is_one_document(file):
    answer = json.loads(plan(file, "--json").stdout)
    assert len(answer["choices"]) == 4
    assert answer["devices"] == 25
    assert answer["recommended"] is None
    assert sum(ring["devices"] for ring in answer["detail"]["rings"]) == 25


def test_a_goal_that_cannot_be_met_gives_exit_code_1_and_the_nearest_choice(file):
    result = plan(file, "--goal", "battery >= 50 years")
    assert result.exit_code == 1
    assert "no choice meets the goals; the nearest (*)" in result.stdout
    assert "missed by" in result.stdout


def test_a_picture_and_settings_to_run_are_written(file, tmp_path):
    result = plan(file, "--plot", str(tmp_path / "plan.png"), "--settings", str(tmp_path / "run.toml"))
    assert result.exit_code == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    settings = load(tmp_path / "run.toml")
    assert settings.policy.name == "steady"
    assert settings.fleet.devices == 25


def test_overrides_and_presets_are_taken():
    answer = json.loads(
        plan("sensor", "--json", "--set", "fleet.devices=20", "--set", "plan.rounds_per_day=[1, 2]").stdout
    )
    assert [choice["choice"]["rounds_per_day"] for choice in answer["choices"]] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--goal", "for ever"], "is not understood"),
        (["--set", "plan.deadline_s=soon"], "plan.deadline_s = 'soon'"),
        (["--learning", "nowhere"], "neither a run directory"),
        (["--plot", "nowhere/at/all.png"], "cannot be written"),
        (["--plot", "plan.nonsense"], "cannot be written"),
    ],
)
def test_bad_input_gives_one_line(file, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = plan(file, *arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_it_needs_no_torch(file):
    code = (
        f"import sys; from pmafl.cli import app; app(['plan', {file!r}, '--json'], standalone_mode=False); "
    )
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


DOCS = Path(__file__).parents[2] / "docs"


def test_the_example_of_the_docs_is_the_file_beside_them():
    text, example = (DOCS / "plan.md").read_text("utf-8"), (DOCS / "trackers.toml").read_text("utf-8")
    assert example in text
    assert len(example.strip().splitlines()) <= 25
    (command,) = re.findall(r"^    pmafl plan (docs/trackers.toml .*)$", text, flags=re.MULTILINE)
    assert "--goal" in command
    assert (DOCS / "plan.png").is_file()
