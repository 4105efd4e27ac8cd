"""Checkpoints: one safetensors file with the state, and one with the heads that changed since the one before.

Each carries whose it is (name of the run, digest of its settings), its round, and a digest of everything in
it; the state also carries the check of the line that it follows. A file whose digest does not fit is damaged
and passed over; a whole one that belongs to another run is refused. Old ones go when the new one is durable.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from pmafl import files
from pmafl.arrays import in_order
from pmafl.errors import InputError
from pmafl.rounds import State, from_arrays, to_arrays
from pmafl.runs.identity import Identity

CHECKPOINT = "checkpoint"
ASIDE = "set-aside"  # in the folder of checkpoints: what was newer than the one that a run went on from
KEPT_CHECKPOINTS = 2  # the newest, and the one before in case the newest is damaged
HEAD_DEVICES, HEAD_ROUNDS = "head_devices", "head_rounds"  # who holds what since which checkpoint
Tensors = dict[str, NDArray[Any]]
Kind = Literal["state", "heads"]
_NAME = re.compile(r"(state|heads)-(\d{8,})\.safetensors")


class Damaged(Exception):
    """A checkpoint file that is not what was written."""


@dataclass(frozen=True)
class Notes:
    """What a file says about itself.

    Attributes:
        kind, round: as in its name.
        run, settings: name of the run and digest of its settings.
        records: check of the line of its round; it stands for all lines so far.
        threads: with which training ran; None where nothing was trained here.
        wall_time_s: that the run took so far.
    """

    kind: Kind
    round: int
    run: str
    settings: str
    records: str
    threads: int | None
    wall_time_s: float


@dataclass(frozen=True)
class Saved:
    """A checkpoint as it was read: the arrays of its state, and what each device held with its round."""

    notes: Notes
    tensors: Tensors
    heads: dict[int, Tensors] = field(default_factory=dict)
    head_round: dict[int, int] = field(default_factory=dict)

    def restore(self, fresh: State) -> State:
        """The state that was saved, of a run that starts with `fresh`."""
        return from_arrays(fresh, self.notes.round, self.tensors, self.heads)


class Checkpoints:
    """The checkpoints of one run. Heads are written once, when they change."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.folder, self._identity = folder, identity
        self._head_round: dict[int, int] = {}  # device -> the checkpoint whose heads file holds its head

    def rounds(self, kind: Kind = "state") -> list[int]:
        """The rounds of which there are files, newest first."""
        try:
            names = [_NAME.fullmatch(name) for name in os.listdir(self.folder)]
        except FileNotFoundError:
            return []
        return sorted((int(name[2]) for name in names if name and name[1] == kind), reverse=True)

    def load(self, round_index: int) -> Saved:
        """The checkpoint of a round with all its heads."""
        notes, tensors = self._read("state", round_index)
        if HEAD_DEVICES not in tensors:
            return Saved(notes, tensors)
        devices, rounds = tensors.pop(HEAD_DEVICES).tolist(), tensors.pop(HEAD_ROUNDS).tolist()
        head_round = dict(zip(devices, rounds, strict=True))
        found = {r: self._read("heads", r)[1] for r in set(rounds)}
        heads = {device: _of_device(found[r], device) for device, r in head_round.items()}
        if missing := [device for device, named in heads.items() if not named]:
            raise Damaged(f"{self.folder}: what device {missing[0]} held is missing")
        return Saved(notes, tensors, heads, head_round)

    def go_on_from(self, saved: Saved | None) -> None:
        """Take a checkpoint (None: the start) as the newest; files of later ones are moved out of the way."""
        self._head_round = dict(saved.head_round) if saved else {}
        last = saved.notes.round if saved else 0
        if any(later > last for later in self.rounds()):
            for kind in ("state", "heads"):
                for later in self.rounds(kind):
                    if later > last:
                        files.set_aside(self._path(kind, later), self.folder / ASIDE)

    def save(
        self,
        state: State,
        changed: Iterable[int],
        records: str,
        threads: int | None,
        wall_time_s: float,
    ) -> None:
        """Write the state, and the heads of devices that changed since the last time, durably."""
        identity, tensors = self._identity, to_arrays(state)
        notes = Notes("state", state.round, identity.run, identity.digest, records, threads, wall_time_s)
        head_round = self._head_round
        if state.learning is not None:
            held = state.learning.devices
            heads = {device: held[device] for device in sorted(set(changed) & held.keys())}
            head_round = head_round | dict.fromkeys(heads, state.round)
            if heads:
                self._write(
                    Notes(**(asdict(notes) | {"kind": "heads"})),
                    {
                        f"{device}/{name}": values.cpu().numpy()
                        for device, named in heads.items()
                        for name, values in named.items()
                    },
                )
            devices = sorted(head_round)
            tensors[HEAD_DEVICES] = np.array(devices, dtype=np.int64)
            tensors[HEAD_ROUNDS] = np.array([head_round[k] for k in devices], dtype=np.int64)
        self._write(notes, tensors)
        files.sync_folder(self.folder)
        needed = {
            *self._head_round.values(),
            *head_round.values(),
        }  # by the checkpoint before and by this one
        self._head_round = head_round
        self._forget(needed)

    def _forget(self, needed: set[int]) -> None:
        """Delete old checkpoints, and the heads that none of the kept ones needs."""
        for old in self.rounds()[KEPT_CHECKPOINTS:]:
            files.remove(self._path("state", old))
        for old in self.rounds("heads"):
            if old not in needed:
                files.remove(self._path("heads", old))

    def _path(self, kind: Kind, round_index: int) -> Path:
        return self.folder / f"{kind}-{round_index:08d}.safetensors"

    def _write(self, notes: Notes, tensors: Tensors) -> None:
        text, tensors = json.dumps(asdict(notes)), {name: in_order(a) for name, a in tensors.items()}
        content = save_safetensors(tensors, {"notes": text, "digest": _digest(text, tensors)})
        files.write_file(self._path(notes.kind, notes.round), content)

    def _read(self, kind: Kind, round_index: int) -> tuple[Notes, Tensors]:
        path = self._path(kind, round_index)
        try:
            content = files.read_bytes(path)
            tensors = load_safetensors(content)
            length = int.from_bytes(content[:8], "little")
            about = json.loads(content[8 : 8 + length])["__metadata__"]
            whole = about["digest"] == _digest(about.get("notes", ""), tensors)
            notes = Notes(**json.loads(about["notes"])) if "notes" in about else None
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{path} is damaged ({error})") from None
        if notes is None:
            raise InputError(f"{path} does not say whose it is, as in version 0.1; take it away")
        if not whole:
            raise Damaged(f"{path} is damaged (its digest does not fit)")
        if (notes.kind, notes.round) != (kind, round_index):
            raise InputError(f"{path} is {notes.kind} of round {notes.round} under another name; rename it")
        if (notes.run, notes.settings) != (self._identity.run, self._identity.digest):
            what = "run" if notes.run != self._identity.run else "settings"
            raise InputError(f"{path} belongs to another {what} ({_short(notes)}); take it away")
        return notes, tensors


def _short(notes: Notes) -> str:
    return f"run {notes.run[:8]}, settings {notes.settings[:8]}"


def _of_device(tensors: Tensors, device: int) -> Tensors:
    prefix = f"{device}/"
    return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}


def _digest(notes: str, tensors: Tensors) -> str:
    digest = hashlib.sha256(notes.encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
