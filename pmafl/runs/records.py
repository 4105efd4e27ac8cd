"""``rounds.jsonl``: one line per round, sealed so that a line that is damaged, edited or foreign is noticed.

The last entry of a line, ``check``, is a digest of the line and of the check before it; the first line
follows on the digest of the run's settings. So the check of a line stands for all lines up to it.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmafl import files
from pmafl.errors import InputError
from pmafl.runs.identity import digest_in

RECORDS = "rounds.jsonl"
CHECK_LENGTH = 16
_SEAL = re.compile(rb', "check": "([0-9a-f]{%d})"}\n' % CHECK_LENGTH)
_SEAL_BYTES = len(', "check": ""}\n') + CHECK_LENGTH


@dataclass(frozen=True)
class Place:
    """The end of a line: where it is in the file, and its check."""

    end: int
    check: str


@dataclass
class Scan:
    """What a file of records holds.

    Attributes:
        sound: how many leading lines are as they were written.
        complete: how many lines there are, up to the last line break.
        places: the ends of those sound lines that were asked for; the start, as line 0, always.
    """

    places: dict[int, Place]
    sound: int = 0
    complete: int = 0

    @property
    def damage(self) -> str:
        """What is wrong with the first line that does not fit, or where the file ends."""
        if self.complete > self.sound:
            return f"line {self.sound + 1} of {RECORDS} is damaged, was edited or is another run's"
        return f"{RECORDS} ends after line {self.sound}"


def seal(record: dict[str, Any], before: str) -> tuple[bytes, str]:
    """A record as a line that follows on the line with the check `before`, and its own check."""
    body = json.dumps(record, allow_nan=False).removesuffix("}").encode()
    check = _check(body, before)
    return body + f', "check": "{check}"}}\n'.encode(), check


def scan(path: Path, settings_digest: str, wanted: Collection[int]) -> Scan:
    """Follow the checks through a file, which may not exist."""
    check, end = _first_check(settings_digest), 0
    found = Scan({0: Place(0, check)})
    for line in _complete_lines(path):
        found.complete += 1
        if found.complete > found.sound + 1 or not _follows(line, check):
            continue
        check, end = _check_of(line), end + len(line)
        found.sound += 1
        if found.sound in wanted:
            found.places[found.sound] = Place(end, check)
    return found


def last_check(path: Path) -> str:
    """The check of the last line; empty where there is none."""
    try:
        return _check_of(files.read_end(path, _SEAL_BYTES))
    except OSError:
        return ""


def read_records(directory: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rounds of a run, one dict per complete line; a line that is not as it was written is an error.

    Lines of version 0.1 have no checks: of those it is only seen that they can be read.
    """
    path = Path(directory) / RECORDS
    if not path.is_file():
        raise InputError(
            f"{directory} has no {RECORDS}: it is not the directory of a run, or nothing ran yet"
        )
    records: list[dict[str, Any]] = []
    digest, sealed = digest_in(Path(directory)), None
    check = _first_check(digest) if digest else None
    for number, line in enumerate(_complete_lines(path), start=1):
        found = _check_of(line)
        sealed = bool(found) if sealed is None else sealed
        try:
            if bool(found) != sealed or (sealed and check and not _follows(line, check)):
                raise ValueError
            record = json.loads(line)
            record.pop("check", None)
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise InputError(
                f"{path}: line {number} is damaged, was edited or is another run's; put it back from "
                f"a copy, or see whether pmafl run --resume {directory} can go on from before it"
            ) from None
        check = found
        records.append(record)
    return records


def _complete_lines(path: Path) -> Iterator[bytes]:
    try:
        with files.open_regular(path) as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last one may be half written
                    yield line
    except FileNotFoundError:
        return


def _first_check(settings_digest: str) -> str:
    return settings_digest[:CHECK_LENGTH]


def _follows(line: bytes, before: str) -> bool:
    return _check_of(line) == _check(line[:-_SEAL_BYTES], before)


def _check_of(line: bytes) -> str:
    found = _SEAL.fullmatch(line[-_SEAL_BYTES:])
    return found[1].decode() if found else ""


def _check(body: bytes, before: str) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()[:CHECK_LENGTH]
