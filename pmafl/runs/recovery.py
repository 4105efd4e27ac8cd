"""Where a run goes on: from the last round whose checkpoint and lines are both on disk and fit each other.

`recover` only reads. What it found is told in one line, and what is newer or damaged is moved aside or
dropped when the run really goes on. It never returns to the start while there is a whole checkpoint: then the
records are what is damaged, and only the user can say whether there is a copy of them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from pmafl import files
from pmafl.errors import InputError
from pmafl.runs.checkpoints import CHECKPOINT, Checkpoints, Damaged, Saved
from pmafl.runs.identity import Identity
from pmafl.runs.records import RECORDS, Place, Scan, scan

DAMAGED = (
    "rounds.damaged.jsonl"  # lines that were not as they were written, kept when a run goes on before them
)


@dataclass(frozen=True)
class Recovered:
    """Where a run stands.

    Attributes:
        identity: whose run it is.
        saved: the checkpoint to go on from; None is the start.
        place: where its last line ends.
        lines: what the file of records holds.
        lost: why rounds are computed again, for people; empty if none are.
    """

    identity: Identity
    saved: Saved | None
    place: Place
    lines: Scan
    lost: str

    @property
    def round(self) -> int:
        return self.saved.notes.round if self.saved else 0

    @property
    def threads(self) -> int | None:
        return self.saved.notes.threads if self.saved else None


def recover(directory: Path, identity: Identity, one_round_back: bool = False) -> Recovered:
    """Find where a run goes on.

    With `one_round_back`, as in a federation whose devices remember no more, a run that would have to go back
    further than the round it was in is refused.
    """
    folder = directory / CHECKPOINT
    if folder.is_symlink():
        raise InputError(f"{folder} is a symbolic link; a run keeps its checkpoints in a folder of its own")
    checkpoints = Checkpoints(folder, identity)
    rounds = checkpoints.rounds()
    lines = scan(directory / RECORDS, identity.digest, rounds)
    saved, reasons, unfit = None, [], []
    for number in rounds:
        try:
            found = checkpoints.load(number)
        except Damaged as damage:
            reasons.append(str(damage))
            continue
        place = lines.places.get(number)
        if place and place.check == found.notes.records:
            saved = found
            break
        unfit.append(number)
    if unfit:
        reasons.append(lines.damage if lines.sound < unfit[-1] else f"{RECORDS} is another run's")
    if unfit and not saved:
        raise InputError(
            f"{directory}: {reasons[-1]}, but the checkpoint of round {unfit[0]} needs {unfit[0]} lines; put "
            f"them back from a copy, or compute all again with pmafl run {directory} --out NEW"
        )
    here = saved.notes.round if saved else 0
    last = max([lines.complete, *rounds])
    if one_round_back and (last > here + 1 or any(number > here for number in rounds)):
        raise InputError(
            f"{directory}: {'; '.join(reasons) or 'checkpoints are missing'}; devices remember one round, so "
            f"a run that was in round {last} cannot go on after round {here}; put the files back from a "
            "copy, or choose another out"
        )
    lost = _lost(directory, here, last, reasons, lines) if last > here or reasons else ""
    return Recovered(identity, saved, lines.places[here], lines, lost)


def clear_the_way(directory: Path, found: Recovered, checkpoints: Checkpoints) -> None:
    """Say what is computed again, and leave only what the run goes on from; the rest is kept elsewhere."""
    if found.lost:
        print(f"warning: {found.lost}", file=sys.stderr)
    if found.lines.complete > found.lines.sound:
        tail = files.read_bytes(directory / RECORDS)[found.place.end :]
        files.write_atomically(directory / DAMAGED, tail)
    files.make_folder(checkpoints.folder)
    for folder in (directory, checkpoints.folder):
        files.sweep(folder)
    checkpoints.go_on_from(found.saved)


def _lost(directory: Path, here: int, last: int, reasons: list[str], lines: Scan) -> str:
    if not reasons and lines.complete > lines.sound:
        reasons = [f"{lines.damage} and kept in {DAMAGED}"]
    why = "; ".join(reasons) or "it stopped (a power cut, a kill) before they were saved"
    if last <= here:
        return f"{directory}: {why}"
    which = f"round {last} is" if last == here + 1 else f"rounds {here + 1} to {last} are"
    return f"{directory}: {which} computed again: {why}"
