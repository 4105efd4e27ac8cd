"""Run directories of the small problem: made, stopped half-way, and compared."""

import json
import math

from safetensors.numpy import load_file

from pmafl import runs
from pmafl.runs import journal
from pmafl.settings import load


def run(directory, overrides, callbacks=()):
    return runs.run(directory, load("mnist", overrides), callbacks)


class Stop(Exception):
    pass


def stop_after(index):
    def callback(world, record):
        if record.round == index:
            raise Stop

    return callback


def commit_every_round(monkeypatch):
    """Commit as often as the settings say, however little time has passed."""
    monkeypatch.setattr(journal, "LEAST_INTERVAL_S", 0.0)
    monkeypatch.setattr(journal, "LARGEST_SHARE", math.inf)


def unseal(directory):
    """Write the lines of a run as version 0.1 did, without checks."""
    records = runs.read_records(directory)
    (directory / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def contents(directory):
    """Records, columns, last state and all that devices held: all that must be equal to the bit."""
    folder = directory / "checkpoint"
    state = load_file(sorted(folder.glob("state-*.safetensors"))[-1])
    tensors = {("state", name): value.tobytes() for name, value in state.items() if name != "head_rounds"}
    for device, number in zip(state.get("head_devices", ()), state.get("head_rounds", ()), strict=True):
        heads = load_file(folder / f"heads-{number:08d}.safetensors")
        mine = {name: held.tobytes() for name, held in heads.items() if name.startswith(f"{device}/")}
        assert mine, f"nothing of device {device}"
        tensors |= {("held", name): held for name, held in mine.items()}
    columns = directory / "devices.npy"
    tensors["columns", ""] = columns.read_bytes() if columns.exists() else b""
    return (directory / "rounds.jsonl").read_bytes(), tensors
