"""The schema against the reader: what one takes, the other takes, field by field."""

import json
from copy import deepcopy
from dataclasses import fields

import jsonschema
import pytest

from pmafl.errors import InputError
from pmafl.scheduling import answer, find_policy, read_question, schema, write
from pmafl.scheduling.exchange import DEVICE_FIELDS
from pmafl.wireless import CELL_FIELDS, COMMON_FIELDS, RoundProblem

DEVICE = {
    "samples": 600, "cycles_per_sample": 137586.5, "max_frequency_hz": 1e9, "max_power_w": 1.0,
    "channel_gain": 1e-8, "queue_j": 0.3, "upload_bits": 8531968,
}  # fmt: skip
PROBLEM = {
    "bandwidth_hz": 1e7, "noise_w_per_hz": 3.98e-21, "deadline_s": 2.0, "energy_coefficient": 5e-27,
    "local_iterations": 5, "tradeoff": 0.001, "round": 3,
    "devices": [
        DEVICE | {"id": "a", "budget_j": 0.1, "available": True},
        DEVICE | {"id": 2, "channel_gain": 0, "last_loss": None},
    ],
    "outlook": {"rounds": 9, "mean_gain": [1e-8, 1e-9], "fading": "exponential"},
    "outcome": {"failed": ["a"], "energy_j": [0.1, 0]},
}  # fmt: skip
VALUES = [
    0, 1, -1, 0.5, 1e-41, 1e-40, 1e15, 1.1e15, 1e300, True, False, None, "1", [], {}, [1.0], ["a"], "none",
    {"rounds": 0, "mean_gain": [1, 1]}, {"rounds": 1, "mean_gain": [1, 1], "fading": [0.5, -1]},
    {"failed": []}, {"energy_j": [1, -1]}, 2**53, 2**53 + 1, "x" * 200, "x" * 201, "",
]  # fmt: skip
validator = jsonschema.Draft202012Validator(schema())


def agree(problem):
    try:
        read_question(json.dumps(problem))
    except InputError as error:
        assert not validator.is_valid(problem), f"refused: {error}"
    else:
        validator.validate(problem)


def test_it_is_a_schema_that_takes_a_problem():
    validator.check_schema(schema())
    agree(PROBLEM)
    assert validator.is_valid(PROBLEM)


@pytest.mark.parametrize("name", [*CELL_FIELDS, *COMMON_FIELDS, "id", "outlook", "outcome", "odd", "devices"])
def test_problems_are_taken_by_both_or_by_none(name):
    for value in VALUES:
        agree(PROBLEM | {name: value})
    agree({key: value for key, value in PROBLEM.items() if key != name})


@pytest.mark.parametrize("name", [*DEVICE_FIELDS, "id", "odd"])
def test_devices_are_taken_by_both_or_by_none(name):
    for value in VALUES:
        problem = deepcopy(PROBLEM)
        problem["devices"][1][name] = value
        agree({key: value for key, value in problem.items() if key != "outcome"})
    problem["devices"] = [
        {key: value for key, value in device.items() if key != name} for device in problem["devices"]
    ]
    agree({key: value for key, value in problem.items() if key != "outcome"})


@pytest.mark.parametrize("policy", ["dual", "all", "set-expansion"])
def test_answers_are_what_the_schema_says(policy):
    question = read_question(json.dumps(PROBLEM))
    decision = find_policy(policy)(question.problem, None)
    found = json.loads(write(answer(question, decision)))
    jsonschema.Draft202012Validator({"$ref": "#/$defs/decision", "$defs": schema()["$defs"]}).validate(found)
    assert found["left_out"]


def test_every_field_is_described():
    defined = schema()["$defs"]
    described = {**defined["problem"]["properties"], **defined["device"]["properties"]}
    names = [entry.name for entry in fields(RoundProblem) if len(described[entry.name]["description"]) < 10]
    assert names == []
