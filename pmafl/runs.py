"""The run directory: settings, records, checkpoints, summary; and going on exactly where a run stopped.

``rounds.jsonl`` gets one flushed line a round. A checkpoint is one safetensors file with the extractor and
the queues, and one with the heads that changed since the checkpoint before; both carry a digest of their
content and appear by an atomic rename. A resumed run takes the newest checkpoint that is whole (the very
start, if there is none), drops the lines after it, and computes the same rounds again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from pmafl.errors import InputError
from pmafl.scheduling.queues import QueueState
from pmafl.settings import RunSettings, Settings, load
from pmafl.simulation import Callback, Record, State, World, advance, build_world, start, wireless_world

Tensors = dict[str, NDArray[Any]]
FEDERATION = "federation.json"  # in runs on real devices: the run's name, and what devices said of themselves
KEPT_CHECKPOINTS = 2  # the newest, and the one before in case the newest is damaged


class Damaged(Exception):
    """A checkpoint file that is not what was written."""


def create(directory: Path | str, settings: Settings) -> None:
    """Make a new run directory that holds nothing but its settings.

    Settings that cannot run are refused before anything is written. A directory whose run never got to its
    first round is taken again.
    """
    wireless_world(settings)
    directory = Path(directory)
    try:
        if (directory / "settings.toml").exists() and complete_lines(directory / "rounds.jsonl"):
            raise InputError(
                f"{directory} already holds a run; go on with --resume {directory}, or choose another --out"
            )
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / "settings.toml", settings.to_toml().encode())
    except OSError as error:
        raise InputError(f"{directory!s:.200}: cannot be written ({error.strerror})") from None


def read_settings(directory: Path) -> Settings:
    """The settings of a run directory."""
    if not (directory / "settings.toml").is_file():
        raise InputError(f"{directory} is not a run directory: it has no settings.toml")
    return load(directory / "settings.toml")


def execute(directory: Path | str, callbacks: Iterable[Callback] = (), wait: bool = False) -> dict[str, Any]:
    """Run what a run directory asks for, from where it stands to its end; return its summary.

    A finished run is not run again. Callbacks see every new round. With `wait`, a process that is still
    running the directory is waited for, instead of being an error.
    """
    directory = Path(directory)
    settings, callbacks = read_settings(directory), list(callbacks)
    try:
        with locked(directory, wait):
            return _execute(directory, settings, callbacks)
    except OSError as error:
        raise InputError(
            f"{directory}: {error.strerror or error}; nothing is lost, go on with --resume {directory}"
        ) from error


def _execute(directory: Path, settings: Settings, callbacks: list[Callback]) -> dict[str, Any]:
    if (finished := read_summary(directory)) is not None:
        return finished
    if (directory / FEDERATION).is_file():
        raise InputError(f"{directory} is a federation's run, and devices keep their heads: use flwr run")
    world = build_world(settings)
    return carry_on(directory, world, start(world), advance, callbacks)


def carry_on(
    directory: Path,
    world: World,
    fresh: State,
    advance: Callable[[World, State], tuple[State, Record]],
    callbacks: Iterable[Callback] = (),
) -> dict[str, Any]:
    """Advance a run from its newest checkpoint, or from the `fresh` state, to its end; return its summary."""
    settings, callbacks = world.settings, list(callbacks)
    checkpoints = Checkpoints(directory / "checkpoint", fresh, settings.run)
    state = checkpoints.newest(complete_lines(directory / "rounds.jsonl"))
    truncate_lines(directory / "rounds.jsonl", state.round)
    began_s = time.perf_counter() - checkpoints.wall_time_s
    with open(directory / "rounds.jsonl", "a", encoding="utf-8") as lines:
        while state.round < settings.run.rounds:
            state, record = advance(world, state)
            lines.write(json.dumps(record.to_dict(), allow_nan=False) + "\n")
            lines.flush()
            checkpoints.wall_time_s = time.perf_counter() - began_s
            checkpoints.note(state, record)
            for callback in callbacks:
                callback(world, record)
    summary = summarise(world, state, read_records(directory), checkpoints.wall_time_s)
    write_atomically(directory / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
    return summary


def summarise(
    world: World, state: State, records: list[dict[str, Any]], wall_time_s: float
) -> dict[str, Any]:
    """The numbers of a whole run that people compare."""
    rounds, settings = len(records), world.settings
    evaluated = [r for r in records if r["accuracy"] is not None]
    last = evaluated[-1] if evaluated else {}
    energy_j = state.queues.spent_j / rounds
    wireless = settings.run.wireless == "full"
    return {
        "policy": settings.policy.name,
        "algorithm": settings.learning.algorithm if settings.run.learning == "full" else None,
        "seed": settings.run.seed,
        "rounds": rounds,
        "devices": world.fleet.devices,
        "final_accuracy": last.get("accuracy"),
        "best_accuracy": max((r["accuracy"] for r in evaluated), default=None),
        "accuracy_std_over_devices": last.get("accuracy_std"),
        "worst_tenth_accuracy": last.get("worst_tenth_accuracy"),
        "global_accuracy": last.get("global_accuracy"),
        "final_loss": last.get("loss"),
        "scheduled_samples_per_round": sum(r["scheduled_samples"] for r in records) / rounds,
        "scheduled_devices_per_round": sum(len(r["scheduled"]) for r in records) / rounds,
        "energy_per_device_round_j": float(energy_j.mean()) if wireless else None,
        "max_energy_per_device_round_j": float(energy_j.max()) if wireless else None,
        "budget_j": float(world.fleet.budget_j.mean()),
        "mean_gap": _mean([r["gap"] for r in records if r["gap"] is not None]),
        "wall_time_s": round(wall_time_s, 3),
        "versions": versions(),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def versions() -> dict[str, str]:
    """What a run depended on."""
    packages = ("pmafl", "numpy", "scipy", "torch")
    found = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def read_budgets(directory: Path) -> NDArray[np.float64]:
    """Energy that each device may spend a round: as a federation's devices said, else as the settings say."""
    if (directory / FEDERATION).is_file():
        said = json.loads((directory / FEDERATION).read_text(encoding="utf-8"))["fleet"]
        return np.array(said["budget_j"])
    return wireless_world(read_settings(directory)).fleet.budget_j


def read_summary(directory: Path) -> dict[str, Any] | None:
    """The summary of a finished run, or None."""
    try:
        summary: dict[str, Any] = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return summary


def read_records(directory: Path) -> list[dict[str, Any]]:
    """The rounds of a run, one dict a complete line."""
    path = directory / "rounds.jsonl"
    if not path.is_file():
        raise InputError(
            f"{directory} has no rounds.jsonl: it is not the directory of a run, or nothing ran yet"
        )
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def complete_lines(path: Path) -> int:
    """How many leading lines of a file are whole JSON."""
    count = 0
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):
                break
            json.loads(line)
            count += 1
    return count


def truncate_lines(path: Path, count: int) -> None:
    """Keep the first `count` lines of a file, which may not exist yet."""
    with open(path, "ab+") as lines:
        lines.seek(0)
        for _ in range(count):
            lines.readline()
        lines.truncate(lines.tell())


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by new content, or leave it as it is: never half of it, and no leftovers."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(directory: Path, wait: bool = False) -> Iterator[None]:
    """Keep two processes from writing one run; the lock goes with the process, however it ends."""
    with open(directory / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise InputError(f"{directory}: another process is running it") from None
        yield


class Checkpoints:
    """The checkpoints of one run, newest last. Heads are written once, when they change."""

    def __init__(self, folder: Path, fresh: State, run: RunSettings) -> None:
        self.folder, self.fresh, self.run = folder, fresh, run
        self.head_round: dict[int, int] = {}  # device -> the checkpoint whose heads file holds its head
        self.wall_time_s = 0.0
        self._changed: set[int] = set()
        folder.mkdir(exist_ok=True)

    def note(self, state: State, record: Record) -> None:
        """Take in a round: remember whose heads it changed, and save when it is time."""
        self._changed.update(record.scheduled)
        if state.round % self.run.checkpoint_every == 0 or state.round == self.run.rounds:
            self.save(state)

    def save(self, state: State) -> None:
        tensors: Tensors = {"queue_j": state.queues.queue_j, "spent_j": state.queues.spent_j}
        needed = set(self.head_round.values())  # by the checkpoint before
        if state.learning is not None:
            changed = sorted(self._changed & state.learning.heads.keys())
            heads = {str(k): state.learning.heads[k].cpu().numpy() for k in changed}
            if heads:
                self._write(self._path("heads", state.round), heads)
            self.head_round.update(dict.fromkeys(changed, state.round))
            devices = sorted(self.head_round)
            tensors["head_devices"] = np.array(devices, dtype=np.int64)
            tensors["head_rounds"] = np.array([self.head_round[k] for k in devices], dtype=np.int64)
            tensors["extractor"] = state.learning.extractor.cpu().numpy()
        self._write(self._path("state", state.round), tensors)
        self._changed.clear()
        self._forget(needed | set(self.head_round.values()))

    def newest(self, lines: int) -> State:
        """The newest whole checkpoint that the records reach up to; the start of the run if there is none."""
        for path in sorted(self.folder.glob("state-*.safetensors"), reverse=True):
            if _round_of(path) <= lines:
                try:
                    return self._load(path)
                except Damaged as damage:
                    print(f"warning: {damage}; going back to the checkpoint before it", file=sys.stderr)
            path.unlink()
        self.head_round, self.wall_time_s = {}, 0.0
        return self.fresh

    def _load(self, path: Path) -> State:
        tensors, wall_time_s = self._read(path)
        learning = self.fresh.learning
        if learning is not None:
            head_round = dict(
                zip(tensors["head_devices"].tolist(), tensors["head_rounds"].tolist(), strict=True)
            )
            files = {r: self._read(self._path("heads", r))[0] for r in set(head_round.values())}
            heads = {device: files[r][str(device)] for device, r in head_round.items()}
            learning = learning.restored(tensors["extractor"], heads)
            self.head_round = head_round
        self.wall_time_s = wall_time_s
        return State(_round_of(path), QueueState(tensors["queue_j"], tensors["spent_j"]), learning)

    def _path(self, kind: str, round_index: int) -> Path:
        return self.folder / f"{kind}-{round_index:08d}.safetensors"

    def _write(self, path: Path, tensors: Tensors) -> None:
        notes = {"digest": _digest(tensors), "wall_time_s": repr(self.wall_time_s)}
        write_atomically(path, save_safetensors(tensors, notes))

    def _read(self, path: Path) -> tuple[Tensors, float]:
        try:
            content = path.read_bytes()
            tensors = load_safetensors(content)
            length = int.from_bytes(content[:8], "little")
            notes = json.loads(content[8 : 8 + length])["__metadata__"]
            whole = notes["digest"] == _digest(tensors)
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise Damaged(f"{path} is damaged ({error})") from None
        if not whole:
            raise Damaged(f"{path} is damaged (its digest does not fit)")
        return tensors, float(notes["wall_time_s"])

    def _forget(self, needed: set[int]) -> None:
        """Delete old checkpoints, and the heads that none of the kept ones needs."""
        for old in sorted(self.folder.glob("state-*.safetensors"))[:-KEPT_CHECKPOINTS]:
            old.unlink()
        for heads in self.folder.glob("heads-*.safetensors"):
            if _round_of(heads) not in needed:
                heads.unlink()


def _round_of(path: Path) -> int:
    return int(path.stem.partition("-")[2])


def _digest(tensors: Tensors) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()
