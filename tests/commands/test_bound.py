import json

import pytest
import typer
from typer.testing import CliRunner

from pmafl import runs
from pmafl.commands.bound import bound
from pmafl.errors import InputError
from pmafl.settings import load

app = typer.Typer()
app.command()(bound)


@pytest.fixture
def directory(tmp_path, tiny):
    free = {"run.wireless": "none", "policy.name": "uniform", "policy.options.count": 2}
    runs.create(tmp_path / "run", load("mnist", tiny | free))
    runs.execute(tmp_path / "run")
    return tmp_path / "run"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_it_shows_constants_conditions_and_the_bound_against_the_loss(directory):
    result = invoke(directory, "--points", 3, "--devices", 1, "--what-if", "samples=156")
    assert result.exit_code == 0
    for part in ("L_u", "chi", "delta", "extractor rate <=", "5 local iterations", "measured", "samples=156"):
        assert part in result.output
    assert "vacuous" in result.output
    assert "proves nothing about this run" in result.output
    assert (directory / "plots" / "bound.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_the_only_thing_on_standard_output(directory):
    result = invoke(directory, "--points", 2, "--devices", 1, "--json", "--what-if", "policy=all")
    answer = json.loads(result.stdout)
    assert [promise["name"] for promise in answer["bounds"]] == ["this run", "policy=all"]
    assert answer["measured"]["rounds"] == [0, 5]
    assert {row["name"] for row in answer["constants"]} >= {"L_u", "L_v", "L_uv", "L_vu", "rho", "delta"}


def test_a_replay_that_differs_from_the_record_is_pointed_out(directory):
    records = runs.read_records(directory)
    records[-1]["loss"] += 0.5
    (directory / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    result = invoke(directory, "--points", 2, "--devices", 1)
    assert "so this is about a run like it" in result.output


def test_a_wrong_directory_is_an_input_error(tmp_path):
    result = invoke(tmp_path)
    assert isinstance(result.exception, InputError)
    assert "is not a run directory" in str(result.exception)
    assert result.output == ""  # the one line that the program prints is the whole output


def test_one_point_is_refused(directory):
    assert invoke(directory, "--points", 1).exit_code == 2
