"""Trained models as files for others: safetensors with a description of the network, or ONNX.

    model.json            how to rebuild the network, how inputs are scaled, and what each model scored
    network.py            the network's code, where it is one of pmafl's; it needs torch alone
    device-3.safetensors  parameters and buffers of device 3 by name; model.safetensors if all have one

Nobody needs pmafl to use them.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pmafl import files
from pmafl.errors import InputError
from pmafl.runs.columns import read_columns
from pmafl.runs.models import Models
from pmafl.runs.run import Run
from pmafl.runs.summary import versions
from pmafl.settings import Settings

if TYPE_CHECKING:
    from pmafl.data import Dataset

ABOUT = "model.json"
ONNX_PACKAGES = ("onnx", "onnxscript")
Format = Literal["safetensors", "onnx"]


def export(
    run: Run,
    out: Path,
    devices: Sequence[int] | None = None,
    rounds: int | None = None,
    form: Format = "safetensors",
) -> list[Path]:
    """Write the models of devices (None: the one that all have) after `rounds`; gives the files' paths."""
    from pmafl.learning.rebuild import CODE, code_of_networks

    if form == "onnx" and (missing := [p for p in ONNX_PACKAGES if importlib.util.find_spec(p) is None]):
        raise InputError(f"ONNX needs {' and '.join(missing)}: pip install 'pmafl[onnx]'")
    models = Models(run, rounds)
    about = describe(run, models)
    wanted: Sequence[int | None] = devices or [None]
    content, named = {}, []
    for device in wanted:  # all that can fail comes before anything is written
        name = f"{'model' if device is None else f'device-{device}'}.{form}"
        content[name] = _content(models, device, form)
        whose = {"file": name, "device": device, **_client(run, device)}
        about["models"].append({**whose, **_score(run, models.rounds, device)})
        named.append(name)
    if about["network"]["code"] == CODE:
        content[CODE] = code_of_networks().encode()
    content[ABOUT] = (json.dumps(about, indent=2, allow_nan=False) + "\n").encode()
    files.make_folder(out)
    for name, data in content.items():
        files.write_atomically(out / name, data)
    return [out / name for name in named]


def describe(run: Run, models: Models) -> dict[str, Any]:
    """All that is needed to rebuild the network and to give it its inputs."""
    from pmafl.learning.rebuild import recipe

    task, settings = run.world.task, run.settings
    assert task is not None, "who has models has data"
    made = recipe(models.method)
    return {
        "algorithm": settings.learning.algorithm,
        "rounds": models.rounds,
        "network": {**made, "folders": list(settings.run.plugin_path)},
        "inputs": inputs(task.dataset, settings, tokens=bool(models.method.model.vocabulary)),
        "classes": list(task.dataset.class_names),
        **(outputs(task.dataset) if task.dataset.regression else {}),
        "models": [],
        "versions": versions(),
    }


def outputs(dataset: Dataset) -> dict[str, Any]:
    """From what a network gives to the values it predicts: times the deviation, plus the mean."""
    return {"outputs": {"mean": list(dataset.target_mean), "std": list(dataset.target_std)}}


def inputs(dataset: Dataset, settings: Settings, tokens: bool) -> dict[str, Any]:
    """From stored samples to inputs: divided, then minus the mean, over the deviation, along an axis.

    Token ids stay as they are.
    """
    as_bytes = dataset.x_test.dtype == np.uint8 and not tokens
    standardised = settings.data.inputs == "standardised" and not tokens
    return {
        "shape": list(dataset.input_shape),
        "tokens": tokens,
        "divided_by": 255.0 if as_bytes else 1.0,
        "axis": dataset.channel_axis,
        "mean": np.asarray(dataset.mean, float).tolist() if standardised else None,
        "std": np.asarray(dataset.std, float).tolist() if standardised else None,
    }


def _client(run: Run, device: int | None) -> dict[str, str]:
    """What the device's client is called, where it is one's."""
    clients = run.world.clients
    return {"client": clients[device]} if device is not None and clients else {}


def _content(models: Models, device: int | None, form: Format) -> bytes:
    if form == "onnx":
        from pmafl.learning.rebuild import as_onnx

        return as_onnx(models.module(device), models.method)
    from safetensors.torch import save

    return save(models.state_dict(device))


def _score(run: Run, rounds: int, device: int | None) -> dict[str, float | None]:
    """What the run recorded for a model, of predicted values the error; None where it was not tested."""
    nothing: dict[str, float | None] = {"accuracy": None, "error": None, "loss": None}
    if device is None:
        row = run.rows[rounds - 1] if rounds else {}
        return {name: row.get(name) for name in nothing}
    try:
        rows = read_columns(run.directory)
    except FileNotFoundError:
        return nothing
    for row in rows[rows["round"] == rounds - 1]:
        values = {name: float(row[name][device]) for name in nothing if name in row.dtype.names}
        return nothing | {name: value for name, value in values.items() if np.isfinite(value)}
    return nothing
