"""Workers on a Ray cluster: actors with one core each, which hold the data and a network.

The data reaches each of Ray's nodes once, and so do the weights of a round; uploads come back through Ray's
object store. A node that goes away takes its workers along; others take their place where there is room.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmafl import plugins
from pmafl.errors import InputError, NoAnswer
from pmafl.learning.task import LearningTask
from pmafl.settings import Settings
from pmafl.workers.connecting import connect
from pmafl.workers.crew import Answer, Event, attempt
from pmafl.workers.packing import pack, unpack
from pmafl.workers.tasks import WorkerDied

PATIENCE_S = 600.0  # until the cluster must have had room for a worker


class Parcel(NamedTuple):
    """A message on its way through Ray, and its tensors as arrays, which Ray does not copy on a node."""

    message: Any
    arrays: list[tuple[torch.dtype, tuple[int, ...], NDArray[np.uint8]]]


def wrap(content: Any) -> Parcel:
    tensors: list[Tensor] = []
    message = pack(content, tensors)
    flat = [values.contiguous().reshape(-1) for values in tensors]
    arrays = [values.view(torch.uint8).numpy() for values in flat]
    kinds = [(values.dtype, tuple(values.shape)) for values in tensors]
    return Parcel(message, [(*kind, array) for kind, array in zip(kinds, arrays, strict=True)])


def unwrap(parcel: Parcel) -> Any:
    # Into torch's own memory: bits may depend on where a vector lies, and Ray's is not to be written.
    tensors = [
        torch.tensor(array).view(dtype).view(shape) if array.size else torch.empty(shape, dtype=dtype)
        for dtype, shape, array in parcel.arrays
    ]
    return unpack(parcel.message, tensors)


@dataclass(frozen=True)
class Origin:
    """All that a worker is made of.

    Attributes:
        task: what makes the learning task.
        memory: what every device holds before its first round.
        network: all that the network holds, of which some may never change.
        folders: where the user's own code is found, if the worker's machine has them.
        files: that code itself, if not.
    """

    task: tuple[Any, ...]
    memory: Parcel
    network: Parcel
    folders: list[str]
    files: dict[str, bytes]


def origin_of(task: LearningTask, settings: Settings) -> Origin:
    learning = task.method.learning
    names = [name for name in learning.model_dump().values() if isinstance(name, str) and ":" in name]
    return Origin(
        (learning, task.dataset, task.partition, task.seed, task.inputs),
        wrap(task.method.memory),
        wrap(dict(task.method.model.module.state_dict())),
        [*settings.run.plugin_path, *(folder or str(Path.cwd()) for folder in sys.path)],
        {name: content for path in names for name, content in plugins.files_of(path).items()},
    )


class Actor:
    """A worker as it lives on the cluster."""

    def __init__(self, origin: Origin) -> None:
        torch.set_num_threads(1)
        self._error: Exception | None = None
        self._shared: tuple[int, Mapping[str, Any]] = (0, {})
        self._code = tempfile.TemporaryDirectory()
        try:
            self._task = self._made(origin)
        except (InputError, NoAnswer) as error:
            self._error = type(error)(str(error))

    def _made(self, origin: Origin) -> LearningTask:
        for name, content in origin.files.items():
            path = Path(self._code.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        known = [folder for folder in origin.folders if Path(folder).exists()]
        sys.path.extend(folder for folder in [*known, self._code.name] if folder not in sys.path)
        task = LearningTask(*origin.task)
        # A user's network may have drawn its first values from anywhere.
        task.method.model.module.load_state_dict(unwrap(origin.network))
        task.method.memory = unwrap(origin.memory)
        return task

    def start(self) -> Exception | None:
        """What was wrong at the start."""
        return self._error

    def do(self, kind: str, number: int, shared: Parcel, part: Parcel) -> tuple[Parcel, Any, float]:
        if self._shared[0] != number:
            self._shared = (number, unwrap(shared))
        began_s = time.perf_counter()
        result, error = attempt(self._task, kind, self._shared[1], unwrap(part))
        return wrap(result), error, time.perf_counter() - began_s


class Cluster:
    """The back end of actors."""

    start_s, part_s = 0.0, 0.002  # whoever asks for a cluster has much to do, and wants it done there

    def __init__(self, address: str | None, task: LearningTask, settings: Settings) -> None:
        self.ray, self._own = connect(address)
        ray = self.ray
        self.origin = ray.put(origin_of(task, settings))
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self.actor = ray.remote(**options)(Actor)
        self.shared: tuple[int, Any] = (0, None)

    def hire(self) -> Hired:
        return Hired(self)

    def share(self, shared: Mapping[str, Any]) -> None:
        self.shared = (self.shared[0] + 1, self.ray.put(wrap(shared)))

    def wait(self, workers: Sequence[Hired], timeout_s: float | None) -> list[tuple[Hired, Event]]:
        waiting = {worker.next: worker for worker in workers if worker.next is not None}
        if not waiting:
            return []
        patience_s = timeout_s
        if timeout_s is None and not any(worker.ready for worker in workers):
            patience_s = PATIENCE_S
        done, _ = self.ray.wait(list(waiting), num_returns=1, timeout=patience_s)
        if not done and timeout_s is None:
            raise InputError(f"no worker could start on the Ray cluster within {PATIENCE_S:g} s; add nodes")
        if done:
            done, _ = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        return [(waiting[ready], waiting[ready].event()) for ready in done]

    @property
    def cores(self) -> int:
        """Of all nodes together."""
        return int(self.ray.cluster_resources().get("CPU", 1))

    def close(self) -> None:
        self.origin, self.shared = None, (0, None)
        if self._own:
            self.ray.shutdown()


class Hired:
    """An actor, and what it owes: that it has started, then its answers in order."""

    def __init__(self, back_end: Cluster) -> None:
        self._back_end = back_end
        self._actor = back_end.actor.remote(back_end.origin)
        self._owed: list[tuple[int, Any]] = [(-1, self._actor.start.remote())]
        self.ready = False

    @property
    def next(self) -> Any:
        return self._owed[0][1] if self._owed else None

    def give(self, number: int, kind: str, part: Any) -> None:
        answer = self._actor.do.remote(kind, *self._back_end.shared, wrap(part))
        self._owed.append((number, answer))

    def event(self) -> Event:
        exceptions = self._back_end.ray.exceptions
        number, answer = self._owed[0]
        try:
            found = self._back_end.ray.get(answer)
        except exceptions.RayTaskError as bug:  # what a part does wrong is caught there
            raise RuntimeError(str(bug)) from None
        except exceptions.RayError as loss:
            return WorkerDied(f"was lost ({type(loss).__name__})")
        del self._owed[0]
        if not self.ready:
            if found is not None:
                raise found
            self.ready = True
            return "ready"
        parcel, error, seconds = found
        return Answer(number, unwrap(parcel), error, seconds)

    def end(self) -> None:
        self._back_end.ray.kill(self._actor)
