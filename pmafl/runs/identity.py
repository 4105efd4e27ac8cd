"""Whose a run directory is: ``run.json`` holds the run's name and the settings that it began with.

Checkpoints, lines and summary carry the digest of these settings, checkpoints and summary also the name. So
edited settings are noticed, with what differs, and so are files of another run. The number of rounds is left
out of the digest: making a run longer is the one change that its rounds so far do not know.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pmafl import files
from pmafl.errors import InputError

IDENTITY, SETTINGS = "run.json", "settings.toml"
FORMAT = 2  # of a run directory; version 0.1 wrote no identity
SHOWN_DIFFERENCES = 3


@dataclass(frozen=True)
class Identity:
    """The name of a run and the text of the settings it began with."""

    run: str
    settings: str
    format: int = FORMAT

    @property
    def digest(self) -> str:
        return _digest_of(self.settings)


def new_identity(settings: str) -> Identity:
    return Identity(uuid.uuid4().hex, settings)


def write_identity(directory: Path, identity: Identity) -> None:
    content = json.dumps(asdict(identity), indent=2) + "\n"
    files.write_atomically(directory / IDENTITY, content.encode())


def read_identity(directory: Path) -> Identity | None:
    """Who the run of a directory is; None where nothing says so."""
    path = directory / IDENTITY
    try:
        found = json.loads(files.read_bytes(path))
        if found["format"] == FORMAT:
            identity = Identity(str(found["run"]), str(found["settings"]))
            _ = identity.digest
            return identity
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}); put it back from a copy of the run") from None
    raise InputError(f"{path}: format {found['format']!r} is another version's; this one knows {FORMAT}")


def digest_in(directory: Path) -> str | None:
    """The digest of the settings that stand in a directory; None where they cannot be read."""
    try:
        return _digest_of(settings_text(directory))
    except (OSError, ValueError, RecursionError):
        return None


def settings_text(directory: Path) -> str:
    return files.read_bytes(directory / SETTINGS).decode()


def check_settings(directory: Path, identity: Identity, rounds: int | None = None) -> None:
    """Refuse settings that are not those the run began with; `rounds` are the ones that may differ."""
    now, then = (_flat(tomllib.loads(text)) for text in (settings_text(directory), identity.settings))
    keys = [key for key in {**then, **now} if now.get(key) != then.get(key)]
    if keys == ["run.rounds"]:
        if now["run.rounds"] == rounds:  # the power failed while the run was made longer
            return
        raise InputError(
            f"{directory / SETTINGS}: run.rounds = {now['run.rounds']}, but the run is one of "
            f"{then['run.rounds']} rounds; to make it longer use pmafl run --resume {directory} --rounds N"
        )
    if keys:
        shown = [
            f"{key} = {now.get(key)!r:.60}, was {then.get(key)!r:.60}" for key in keys[:SHOWN_DIFFERENCES]
        ]
        more = f" and {len(keys) - len(shown)} more" if len(keys) > len(shown) else ""
        raise InputError(
            f"{directory / SETTINGS} was changed since the run began ({'; '.join(shown)}{more}); "
            f"put it back as {IDENTITY} has it, or run it as a new one with --out"
        )


def make_longer(directory: Path, identity: Identity, rounds: int) -> Identity:
    """Set the number of rounds; in the settings first, so that a power cut in between is noticed."""
    text = with_rounds(identity.settings, rounds)
    files.write_atomically(directory / SETTINGS, text.encode())
    longer = Identity(identity.run, text)
    write_identity(directory, longer)
    return longer


def with_rounds(settings: str, rounds: int) -> str:
    """The text of settings with another number of rounds, all else as it is."""
    text = re.sub(r"(?m)^(rounds\s*=\s*)[\d_]+", rf"\g<1>{rounds}", settings)
    before, after = tomllib.loads(settings), tomllib.loads(text)
    if after.get("run", {}).get("rounds") != rounds or _digest(before) != _digest(after):
        raise InputError(f"--rounds {rounds}: {SETTINGS} has no line 'rounds = ...' in [run] to change")
    return text


@lru_cache(maxsize=64)  # whoever looks at a run asks several times
def _digest_of(settings: str) -> str:
    return _digest(tomllib.loads(settings))


def _digest(tree: Mapping[str, Any]) -> str:
    values = {key: value for key, value in _flat(tree).items() if key != "run.rounds"}
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_leaves(tree, ""))


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
