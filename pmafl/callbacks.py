"""Callbacks: functions of the world and a round's record, called after every round, to log elsewhere.

Each belongs to an extra of its own (tensorboard, wandb, mlflow). The services are told the settings with the
first round and that the run is over with its last; a run that goes on later is a new one for them, unless
their own options say otherwise (``id`` and ``resume`` of Weights & Biases). A service that cannot be used is
said before a run starts, as far as that can be known without starting one there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pmafl.errors import InputError, first_line
from pmafl.rounds import ERRORS, METRICS, Callback, Record
from pmafl.world import World

SCALARS = (
    *METRICS,
    *ERRORS,
    "mean_energy_j",
    "worst_energy_j",
    "mean_queue_j",
    "max_queue_j",
    "scheduled_samples",
)
LONGEST_PARAMETER = 500  # characters that MLflow takes in every version
MOST_PARAMETERS = 100  # that it takes at once
WANDB = "Weights & Biases cannot be used: {}; log in with wandb login, or set WANDB_MODE=offline"
MLFLOW = "MLflow cannot be used: {}; MLFLOW_TRACKING_URI must be a server's address or a folder, file:///path"


def tensorboard(directory: Path | str) -> Callback:
    """Log the scalars of every round for TensorBoard (extra: tensorboard)."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("TensorBoard is not installed; pip install 'pmafl[tensorboard]'") from None
    writer = SummaryWriter(str(directory))

    def log(world: World, record: Record) -> None:
        for name, value in _scalars(record).items():
            writer.add_scalar(name, value, record.round)
        writer.flush()

    return log


def wandb(project: str, **options: Any) -> Callback:
    """Log the scalars of every round to Weights & Biases (extra: wandb).

    `options` are those of ``wandb.init``; ``mode="offline"`` (or WANDB_MODE=offline) keeps all here.
    """
    try:
        import wandb as service
    except ImportError:
        raise InputError("Weights & Biases is not installed; pip install 'pmafl[wandb]'") from None
    started: list[Any] = []
    mode = options.get("mode") or os.environ.get("WANDB_MODE", "online")
    if mode == "online" and "settings" not in options:  # which may say otherwise
        with _in_one_line(WANDB):
            service.login()

    def log(world: World, record: Record) -> None:
        with _in_one_line(WANDB):
            if not started:
                started.append(service.init(project=project, config=world.settings.model_dump(), **options))
            started[0].log(_scalars(record), step=record.round)
            if _is_last(world, record):
                started.pop().finish()

    return log


def mlflow(experiment: str, tracking_uri: str | None = None, name: str | None = None) -> Callback:
    """Log the scalars of every round to MLflow (extra: mlflow).

    `tracking_uri` is a server's address or a folder as ``file:///path``; left out: MLFLOW_TRACKING_URI, else
    what MLflow takes by itself. `name` is what the run is called there.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param
    except ImportError:
        raise InputError("MLflow is not installed; pip install 'pmafl[mlflow]'") from None
    with _in_one_line(MLFLOW):
        client = MlflowClient(tracking_uri)
        client.get_experiment_by_name(experiment)
    started: list[str] = []

    def start(world: World) -> str:
        found = client.get_experiment_by_name(experiment)
        where = found.experiment_id if found else client.create_experiment(experiment)
        run: str = client.create_run(where, run_name=name).info.run_id
        values = [
            Param(key, str(value)[:LONGEST_PARAMETER]) for key, value in _flat(world.settings.model_dump())
        ]
        for first in range(0, len(values), MOST_PARAMETERS):
            client.log_batch(run, params=values[first : first + MOST_PARAMETERS])
        return run

    def log(world: World, record: Record) -> None:
        now_ms = time.time_ns() // 1_000_000
        metrics = [Metric(key, value, now_ms, record.round) for key, value in _scalars(record).items()]
        with _in_one_line(MLFLOW):
            if not started:
                started.append(start(world))
            client.log_batch(started[0], metrics=metrics)
            if _is_last(world, record):
                client.set_terminated(started.pop())

    return log


@contextmanager
def _in_one_line(words: str) -> Iterator[None]:
    """Whatever a service raises, as one line; its packages share no kind of error."""
    try:
        yield
    except Exception as error:
        raise InputError(words.format(first_line(error)[:200].rstrip("."))) from error


def _scalars(record: Record) -> dict[str, float]:
    """What was measured in a round."""
    values = {name: getattr(record, name) for name in SCALARS}
    return {name: float(value) for name, value in values.items() if value is not None}


def _is_last(world: World, record: Record) -> bool:
    return record.round + 1 == world.settings.run.rounds


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
