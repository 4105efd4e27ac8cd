"""The JSON that `pmafl schedule` reads and writes, as a JSON Schema (draft 2020-12).

The fields and their limits come from `RoundProblem`, and their descriptions from its docstring, so that the
schema cannot say anything else than what is read.
"""

import inspect
import re
from dataclasses import fields
from typing import Any

from pmafl.scheduling.decision import Decision
from pmafl.scheduling.exchange import (
    DEVICE_FIELDS,
    LARGEST_NUMBER,
    LAWS,
    LONGEST_NAME,
    MAY_BE_NULL,
    NEEDED_FROM_CELL,
    NEEDED_FROM_DEVICE,
)
from pmafl.scheduling.reasons import CODES
from pmafl.wireless import CELL_FIELDS, COMMON_FIELDS, RoundProblem, limits

Schema = dict[str, Any]
SOMETIMES = ("id", "dropped", "awake_energy_j", "devices", "left_out")  # in an answer


def schema() -> Schema:
    """Validates problems; the answers stand under ``$defs``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A round problem of pmafl",
        "$ref": "#/$defs/problem",
        "$defs": definitions(),
    }


def definitions() -> dict[str, Schema]:
    """The schemas of a problem, its devices, a decision and an error, by name."""
    return {
        "problem": _problem(),
        "device": _device(),
        "name": {
            "description": "A name of the caller's own.",
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
                {"type": "integer", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
            ],
        },
        "decision": _decision(),
        "error": _error(),
    }


def descriptions(kind: type) -> dict[str, str]:
    """What a class's docstring says of its attributes."""
    text = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    found = re.findall(r"^ {4}([\w, ]+): (.+(?:\n {8}.+)*)", text, flags=re.MULTILINE)
    return {name: " ".join(words.split()) for names, words in found for name in names.split(", ")}


def _field(name: str) -> Schema:
    if name == "available":
        return {"type": "boolean"}
    least, most, zero, whole, _ = limits(name)
    number: Schema = {"type": "integer" if whole else "number", "minimum": least}
    if most < float("inf"):
        number["maximum"] = most
    choices = [number]
    if zero:
        choices.append({"const": 0})
    if name in MAY_BE_NULL:
        choices.append({"type": "null"})
    return number if len(choices) == 1 else {"anyOf": choices}


def _described(names: tuple[str, ...]) -> dict[str, Schema]:
    said = descriptions(RoundProblem)
    return {name: {"description": said.get(name, "")} | _field(name) for name in names}


def _problem() -> Schema:
    properties = _described((*CELL_FIELDS, *COMMON_FIELDS))
    for name in COMMON_FIELDS:
        properties[name]["description"] += " Here it stands for every device that has none of its own."
    extras: dict[str, Schema] = {
        "id": {"$ref": "#/$defs/name"},
        "devices": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/device"}},
        "scheduled": _devices("Fixes the set: the answer is its best allocation, or why there is none."),
        "outlook": {
            "description": "What the first problem tells policies that plan of the rounds to come.",
            "type": ["object", "null"],
            "properties": {
                "rounds": {"type": "integer", "minimum": 1, "maximum": 10**9},
                "mean_gain": {
                    "description": "Mean channel power gain of each device.",
                    "type": "array",
                    "items": _field("channel_gain"),
                },
                "fading": {
                    "description": "Distribution of fading: a name, or equally likely factors of the mean.",
                    "anyOf": [
                        {"enum": list(LAWS)},
                        {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "number", "minimum": 0, "maximum": 1e9},
                        },
                    ],
                },
            },
            "required": ["rounds", "mean_gain"],
            "additionalProperties": False,
        },
        "outcome": {
            "description": "What came of the round before; left out, all went as decided.",
            "type": ["object", "null"],
            "properties": {
                "failed": _devices("Devices whose upload did not arrive."),
                "energy_j": {
                    "description": "What each device spent.",
                    "type": "array",
                    "items": _field("queue_j"),
                },
            },
            "additionalProperties": False,
        },
    }
    return {
        "description": "One round: the cell, the task and the devices.",
        "type": "object",
        "properties": properties | extras,
        "required": [*NEEDED_FROM_CELL, "devices"],
        "additionalProperties": False,
        # What stands for every device need not be said by each.
        "allOf": [
            {"anyOf": [{"required": [name]}, {"properties": {"devices": {"items": {"required": [name]}}}}]}
            for name in COMMON_FIELDS
            if name in NEEDED_FROM_DEVICE
        ],
    }


def _device() -> Schema:
    return {
        "description": "What the server knows of a device.",
        "type": "object",
        "properties": {"id": {"$ref": "#/$defs/name"}, **_described(DEVICE_FIELDS)},
        "required": [name for name in NEEDED_FROM_DEVICE if name not in COMMON_FIELDS],
        "additionalProperties": False,
    }


def _decision() -> Schema:
    said = descriptions(Decision)
    properties: dict[str, Schema] = {"id": {"$ref": "#/$defs/name"}}
    for entry in fields(Decision):
        words = {"description": said.get(entry.name, "")}
        if entry.name in ("scheduled", "dropped"):
            properties[entry.name] = _devices(words["description"])
        elif entry.name == "policy":
            properties[entry.name] = words | {"type": "string"}
        elif entry.name == "objective":
            properties[entry.name] = words | {"type": "number"}
        elif entry.name in ("lower_bound", "gap"):
            properties[entry.name] = words | {"type": ["number", "null"]}
        else:
            properties[entry.name] = words | {"type": "array", "items": {"type": "number", "minimum": 0}}
    properties["queue_after_j"] = {
        "description": "The queue of each device after the round; null where its budget is not known.",
        "type": "array",
        "items": {"type": ["number", "null"], "minimum": 0},
    }
    properties["devices"] = _devices("The ids of all devices in order, where they have any.")
    properties["left_out"] = {
        "description": "Who was not scheduled, and why.",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "device": {"$ref": "#/$defs/name"},
                "code": {"enum": list(CODES), "description": "; ".join(map(": ".join, CODES.items()))},
                "reason": {"type": "string"},
            },
            "required": ["device", "code", "reason"],
            "additionalProperties": False,
        },
    }
    return {
        "description": "Who takes part and how; every list of numbers has one entry per device.",
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in SOMETIMES],
        "additionalProperties": False,
    }


def _error() -> Schema:
    return {
        "description": "In the place of a decision where there is none.",
        "type": "object",
        "properties": {
            "id": {"$ref": "#/$defs/name"},
            "error": {"type": "string", "description": "One line."},
            "kind": {
                "enum": ["input", "no-answer", "internal"],
                "description": "input: the problem is wrong; no-answer: it has no solution; "
                "internal: a fault of the scheduler.",
            },
            "faults": {
                "type": "array",
                "items": {"type": "string"},
                "description": "All that is wrong, one by one.",
            },
            "line": {"type": "integer", "description": "Of the stream, from 1."},
        },
        "required": ["error", "kind"],
        "additionalProperties": False,
    }


def _devices(words: str) -> Schema:
    return {
        "description": f"{words} Devices go by their id, or by their number from 0 where they have none.",
        "type": "array",
        "items": {"$ref": "#/$defs/name"},
    }
