"""The reference of settings: meaning, unit, range and default from their own fields, origins from presets.

A preset says beside each number where it comes from; those comments are the last column.
"""

import re
import types
from importlib import resources
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from pmafl.settings import PRESETS, NonNegativeSpread, PositiveSpread, SampleSpread, Settings

UNITS = {  # by the end of a name
    "_dbm_per_hz": "dBm/Hz",
    "_hz": "Hz",
    "_w": "W",
    "_j": "J",
    "_s": "s",
    "_m": "m",
    "_db": "dB",
    "_bps": "bit/s",
    "_bits": "bit",
    "bits_per_parameter": "bit",
    "energy_coefficient": "J per cycle and Hz²",
    "cycles_per_operation": "cycles",
    "operations_per_sample": "multiply-adds",
    "_rate": "",
    "devices": "devices",
    "samples": "samples",
    "rounds": "rounds",
    "_every": "rounds",
    "rounds_per_day": "rounds per day",
    "batch_size": "samples",
    "shared_layers": "layers",
    "tradeoff": "per sample, in J² of queue times energy",
}
SPREAD = "a number for all, a list with one per device, or a distribution"
SPREADS = {
    PositiveSpread.__metadata__[0]: f"greater than 0; {SPREAD}",
    NonNegativeSpread.__metadata__[0]: f"0 or more; {SPREAD}",
    SampleSpread.__metadata__[0]: f'`"equal"`, or whole numbers from 1 on: {SPREAD}',
}
LIMITS = {
    annotated_types.Gt: ("greater than {}", "gt"),
    annotated_types.Ge: ("at least {}", "ge"),
    annotated_types.Lt: ("less than {}", "lt"),
    annotated_types.Le: ("at most {}", "le"),
}


def text() -> str:
    stated = {preset: _stated(preset) for preset in PRESETS}
    parts = []
    for section, holder in Settings.model_fields.items():
        kind: Any = holder.annotation
        parts.append(f"## `[{section}]`\n\n{kind.__doc__}")
        for key, field in kind.model_fields.items():
            parts.append(_setting(f"{section}.{key}", key, field, stated))
    parts.append("## Sources\n\nWhat the numbers in brackets, and the words beside them, refer to.")
    parts += [f"### The preset `{preset}`\n\n```text\n{_head(preset)}\n```" for preset in PRESETS]
    return "\n\n".join(parts)


def _setting(name: str, key: str, field: FieldInfo, stated: dict[str, dict[str, tuple[str, str]]]) -> str:
    said = field.description or ""
    facts = [f"*Range*: {_range(field)}."]
    if unit := next((unit for end, unit in UNITS.items() if key.endswith(end)), ""):
        facts.insert(0, f"*Unit*: {unit}.")
    if field.is_required():
        facts.append("*Default*: none, a preset or a file says it.")
    else:
        facts.append(f"*Default*: {_shown(field.get_default(call_default_factory=True))}.")
    lines = [f"### `{name}`", "", said[:1].upper() + said[1:] + ".", "", " ".join(facts)]
    rows = [(preset, *keys[name]) for preset, keys in stated.items() if name in keys]
    if rows:
        lines += ["", "| preset | value | origin |", "|---|---|---|"]
        lines += [f"| `{preset}` | `{value}` | {_escaped(origin)} |" for preset, value, origin in rows]
    return "\n".join(lines)


def _range(field: FieldInfo) -> str:
    """In words, from the type and its limits."""
    for entry in field.metadata:
        if entry in SPREADS:
            return SPREADS[entry]
    if get_origin(field.annotation) is Literal:
        return _one_of(get_args(field.annotation))
    if get_origin(field.annotation) in (Union, types.UnionType):
        words = [argument for argument in get_args(field.annotation) if get_origin(argument) is Literal]
        return "a number greater than 0, or " + _one_of(get_args(words[0]))
    kinds = {int: "a whole number", float: "a number", str: "text", bool: "`true` or `false`"}
    kind = kinds.get(field.annotation) or (
        "a table" if "dict" in str(field.annotation) else "a list of texts"
    )
    limits = [
        words.format(_number(getattr(entry, attribute)))
        for entry in field.metadata
        for limit, (words, attribute) in LIMITS.items()
        if isinstance(entry, limit)
    ]
    return kind + (" " + " and ".join(limits) if limits else "")


def _one_of(values: tuple[Any, ...]) -> str:
    shown = [_shown(value) for value in values]
    return ", ".join(shown[:-1]) + " or " + shown[-1]


def _number(value: float) -> str:
    return f"{value:,}".removesuffix(".0") if abs(value) < 1e12 else f"{float(value):.3g}"


def _shown(value: Any) -> str:
    if value == "":
        return "empty"
    if value in ({}, ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:g}`"


def _source(preset: str) -> str:
    return (resources.files("pmafl") / "presets" / f"{preset}.toml").read_text("utf-8")


def _head(preset: str) -> str:
    """The comment that a preset begins with."""
    lines = []
    for line in _source(preset).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return "\n".join(lines)


def _stated(preset: str) -> dict[str, tuple[str, str]]:
    """Value and origin of what a preset states itself, by `section.key`."""
    found: dict[str, tuple[str, str]] = {}
    section = last = ""
    for line in _source(preset).splitlines():
        if opened := re.match(r"\[(\w+)\]", line):
            section, last = opened[1], ""
        elif stated := re.match(r"(\w+)\s*=\s*(.*?)\s*(?:#\s*(.*))?$", line):
            last = f"{section}.{stated[1]}" if section else ""
            if last:
                found[last] = (stated[2], stated[3] or "")
        elif last and (more := re.match(r"\s+#\s*(.*)", line)):  # a comment that goes on
            value, origin = found[last]
            found[last] = (value, f"{origin} {more[1]}")
    return found


def _escaped(words: str) -> str:
    return re.sub(r"([|<*\[\]])", r"\\\1", words)
