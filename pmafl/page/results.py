"""The page of `pmafl reproduce`: the paper's claims with our numbers and verdicts, and the curves."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from pmafl.errors import InputError
from pmafl.page import figures

CLAIMS = "CLAIMS.json"
MEASURES = {"accuracy": ("Accuracy", "test accuracy (%)", 100.0), "loss": ("Loss", "test loss", 1.0)}
GLOSSARY = {
    "ours": "our number and the half-width of its 95% interval over seeds, where there is more than one",
    "paper": "the number that the paper prints, where it prints one",
    "verdict": "by rule, from our number and its interval; the remark says what decided",
    "stated": "a reading: the training that the paper states, beside the chosen one, under which all train",
}


def results_data(directory: Path) -> dict[str, Any]:
    """Everything on the page of a directory of results."""
    path = directory / CLAIMS
    try:
        claims = json.loads(path.read_text("utf-8"))
        rows = [_claim(claim) for claim in claims]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error!s:.200}); pmafl reproduce claims writes it") from None
    found = [_figure(file) for file in sorted(directory.glob("fig*.json"))]
    drawn = {name: figures.bands(name, title, unit) for name, (title, unit, _) in MEASURES.items()}
    return {
        "name": f"The paper's claims: {directory.resolve().name}",
        "line": f"{len(rows)} claims, {len(found)} figures",
        "claims": rows,
        "shown": [figure for figure in found if figure["curves"]],
        "figures": figures.items(drawn),
        "glossary": GLOSSARY,
    }


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    names = ("claim", "where", "dataset", "reading", "figure", "unit", "scale", "verdict", "remark", "reason")
    found = {name: str(claim.get(name) or "") for name in names}
    numbers = {name: _number(claim.get(name)) for name in ("number", "half_width", "paper")}
    tried = [
        {name: str(other.get(name) or "") for name in ("what", "verdict", "remark")}
        | {name: _number(other.get(name)) for name in ("number", "half_width")}
        for other in claim.get("tried", [])
    ]
    return {**found, **numbers, "ours": bool(claim.get("ours")), "tried": tried}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _figure(file: Path) -> dict[str, Any]:
    """A figure's command and its curves, as far as they are there."""
    curves: dict[str, dict[str, list[float]]] = {}
    try:
        about = json.loads(file.read_text("utf-8"))
        with file.with_suffix(".csv").open(encoding="utf-8", newline="") as table:
            for row in csv.DictReader(table):
                name = ", ".join(filter(None, [row["method"], row.get("value", "")]))
                line = curves.setdefault(name, {key: [] for key in COLUMNS})
                for key in COLUMNS:
                    line[key].append(float(row[key]) if row.get(key) else float("nan"))
    except FileNotFoundError:
        about = {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file.with_suffix('.csv')} is damaged ({error!s:.200})") from None
    return {
        "name": file.stem,
        "command": str(about.get("command", "")),
        "lines": list(curves),
        "curves": [{key: np.array(values) for key, values in line.items()} for line in curves.values()],
    }


COLUMNS = ("round", "accuracy_mean", "accuracy_half_width", "loss_mean", "loss_half_width")
