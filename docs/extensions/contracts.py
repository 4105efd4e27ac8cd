"""What goes in and out as JSON, from the schema of `pmafl schedule`, and from a plan and a run."""

import inspect
import io
import json
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pmafl
from pmafl.planning import answer, parse_goal, read_request
from pmafl.scheduling import definitions

PARTS = {
    "problem": "A problem",
    "device": "A device of a problem",
    "decision": "A decision",
    "error": "An error",
}
LONGEST = 40  # characters of an example


def schedule() -> str:
    """Every field of problems, decisions and errors."""
    known = definitions()
    parts = []
    for name, title in PARTS.items():
        part = known[name]
        parts.append(f"### {title}\n\n{part.get('description', '')}")
        lines = ["| field | type | |", "|---|---|---|"]
        for field, schema in part["properties"].items():
            needed = " **needed**" if field in part.get("required", ()) else ""
            lines.append(f"| `{field}` | {_type(schema)}{needed} | {_cell(schema.get('description', ''))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for way in ("anyOf", "oneOf"):
        if way in schema:
            return " or ".join(_type(choice) for choice in schema[way])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    least, most = schema.get("minimum"), schema.get("maximum")
    limits = [f"from {least:g}" if least is not None else "", f"to {most:g}" if most is not None else ""]
    return " ".join([str(kind), *filter(None, limits)])


def plan() -> str:
    """Every key of a plan's JSON, with its type and the value in a small example."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "small.toml")
        file.write_text(
            'extends = "tracker"\n[fleet]\ndevices = 50\n[plan]\nrounds_per_day = [6, 24]\n', "utf-8"
        )
        with redirect_stdout(io.StringIO()):
            found = answer(read_request(str(file), {}), [parse_goal("battery >= 1 years")])
    return _table(json.loads(json.dumps(found.to_dict())))


def record() -> str:
    """Every key of a line of rounds.jsonl and of summary.json, from a run of two rounds."""
    settings = pmafl.load_settings("mnist", {"run.learning": "none", "run.rounds": 2, "policy.name": "dual"})
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "run")
        pmafl.create_run(directory, settings)
        pmafl.execute_run(directory)
        line = json.loads((directory / "rounds.jsonl").read_text("utf-8").splitlines()[-1])
        summary = json.loads((directory / "summary.json").read_text("utf-8"))
    said = " ".join((inspect.getdoc(pmafl.Record) or "").split())
    return (
        f"## A line of `rounds.jsonl`\n\n{said.replace('``', '`')}\n\n{_table(line)}\n\n"
        f"## `summary.json`\n\n{_table(summary)}"
    )


def _table(values: dict[str, Any]) -> str:
    rows = ["| key | type | for example |", "|---|---|---|"]
    rows += [f"| `{path}` | {kind} | {example} |" for path, kind, example in _walk(values, "")]
    return "\n".join(rows)


def _walk(value: Any, path: str) -> list[tuple[str, str, str]]:
    if isinstance(value, dict) and value:
        return [row for key, below in value.items() for row in _walk(below, f"{path}.{key}" if path else key)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _walk(value[0], f"{path}[]")
    names = {dict: "object", list: "list", str: "text", bool: "true or false", type(None): "null"}
    kind = names.get(type(value), "number")
    if isinstance(value, list) and value:
        kind = f"list of {names.get(type(value[0]), 'number')}s"
    example = json.dumps(value)
    if len(example) > LONGEST:
        example = example[: LONGEST - 4] + " ..."
    return [(path, kind, f"`{example}`")]


def _cell(words: str) -> str:
    return words.replace("|", r"\|")
