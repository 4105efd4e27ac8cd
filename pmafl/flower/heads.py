"""What a device holds between rounds: in Flower's context, and on disk where there is a directory.

The context is lost when a node restarts, the file is not. Both hold the same bytes: the device's tensors (for
`pma` its head) before and after the last round that it trained in. A server that was killed asks for that
round again; the device then starts from those before it, and the answer is the same to the bit.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from pmafl.arrays import in_order
from pmafl.errors import InputError
from pmafl.runs import write_atomically

Arrays = dict[str, NDArray[Any]]
RUN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what cannot lead out of a directory


class ServerTooOld(InputError):
    """The server went back further than a device remembers; its name is all that the server hears of it."""


@dataclass(frozen=True)
class Head:
    """What a device held before and after `round`, by name."""

    round: int
    before: Arrays
    after: Arrays

    def at_start_of(self, round_index: int) -> Arrays:
        """What a round begins with; refused where it is not known any more."""
        if self.round > round_index:
            raise ServerTooOld(
                f"the server asks for round {round_index + 1}, but this device trained in round "
                f"{self.round + 1} and remembers one round back: the server's run directory is too old"
            )
        return self.after if self.round < round_index else self.before


class HeadStore:
    """The head of one run. Without a directory it lives as long as the node."""

    def __init__(self, context: Context, run: str, directory: Path | None) -> None:
        if not RUN_NAME.fullmatch(run):
            raise InputError(f"the run's name is {run!r:.80}; must be 1 to 64 letters, digits, - or _")
        self._records: Any = context.state
        self._key = f"head-{run}"
        self._file = directory / run / "head.safetensors" if directory else None

    def load(self) -> Head | None:
        """The newest head there is: a node killed at the wrong moment has an older one in its context."""
        found = [_unpack(content, where) for content, where in self._contents()]
        return max(found, key=lambda head: head.round, default=None)

    def save(self, head: Head) -> None:
        moments = {"before": head.before, "after": head.after}
        tensors = {
            f"{when}/{name}": in_order(array)
            for when, held in moments.items()
            for name, array in held.items()
        }
        content = save_safetensors({"round": np.array([head.round]), **tensors})
        if self._file:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, content)
        self._records[self._key] = ConfigRecord({"head": content})

    def _contents(self) -> list[tuple[bytes, str]]:
        contents = []
        if self._key in self._records:
            contents.append((self._records[self._key]["head"], "the context"))
        if self._file and self._file.is_file():
            contents.append((self._file.read_bytes(), str(self._file)))
        return contents


def _unpack(content: bytes, where: str) -> Head:
    try:
        tensors = load_safetensors(content)
        return Head(int(tensors["round"][0]), _named(tensors, "before/"), _named(tensors, "after/"))
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{where}: damaged ({error}); delete it to start from the initial head") from None


def _named(tensors: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
