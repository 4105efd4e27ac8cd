import json

import pytest
import typer
from typer.testing import CliRunner

from pmafl import runs
from pmafl.commands.efficiency import efficiency
from pmafl.errors import InputError
from pmafl.settings import load
from tests.rounding import ROUNDING

SMALL = {"fleet.devices": 10, "fleet.samples": 600, "cell.bandwidth_hz": 1e6, "run.rounds": 8}


@pytest.fixture
def call():
    app = typer.Typer()
    app.command()(efficiency)

    def invoke(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.stdout

    return invoke


def sets(settings):
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture
def directory(tmp_path):
    settings = load("mnist", SMALL | {"run.learning": "none", "policy.name": "ocean"})
    runs.create(tmp_path / "run", settings)
    runs.execute(tmp_path / "run")
    return tmp_path / "run"


def test_settings_are_scheduled_and_judged(call):
    answer = json.loads(call("mnist", *sets(SMALL), "--policy", "steady", "--json"))
    assert answer["policy"] == "steady"
    assert 0.7 < answer["share_of_bound"] <= 1 + ROUNDING
    assert answer["bound_samples"] <= answer["fractional_bound_samples"]
    assert len(answer["used_of_budget"]) == len(answer["turns"]) == 10
    assert max(answer["used_of_budget"]) <= 1 + 1e-9


def test_a_run_directory_is_judged_by_its_records(call, directory):
    answer = json.loads(call(directory, "--json"))
    summary = runs.read_summary(directory)
    assert answer["policy"] == "ocean"
    assert answer["scheduled_samples"] == pytest.approx(8 * summary["scheduled_samples_per_round"])
    assert max(answer["used_of_budget"]) == pytest.approx(summary["max_energy_per_device_round_j"] / 0.1)
    again = json.loads(call("mnist", *sets(SMALL), "--policy", "ocean", "--json"))
    assert again["share_of_bound"] == pytest.approx(answer["share_of_bound"])


def test_the_settings_of_a_run_directory_can_be_tried_with_another_policy(call, directory):
    answer = json.loads(call(directory, "--policy", "steady", "--json"))
    assert answer["policy"] == "steady"
    assert answer["bound_samples"] == pytest.approx(json.loads(call(directory, "--json"))["bound_samples"])


def test_a_person_reads_a_table(call):
    text = call("mnist", *sets(SMALL), "--policy", "dual")
    for expected in ("policy dual", "efficiency", "largest spender", "over its budget", "least served"):
        assert expected in text


def test_an_unfinished_run_is_refused(call, directory):
    lines = (directory / "rounds.jsonl").read_text().splitlines(keepends=True)
    (directory / "rounds.jsonl").write_text("".join(lines[:5]))
    with pytest.raises(InputError, match=r"only 5 of 8 rounds are done; go on with pmafl run --resume"):
        call(directory)


def test_a_run_of_real_devices_is_refused(call, directory):
    lines = (directory / "rounds.jsonl").read_text().splitlines()
    records = [json.dumps(json.loads(line) | {"answered": [0]}) + "\n" for line in lines]
    (directory / "rounds.jsonl").write_text("".join(records))
    with pytest.raises(InputError, match="real devices ran it"):
        call(directory)
