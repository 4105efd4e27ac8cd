"""The run directory: settings, records, checkpoints, summary; and going on exactly where a run stopped.

    settings.toml     complete: running it again gives the same run
    run.json          the run's name and the settings it began with
    rounds.jsonl      a line per round, each sealed by a check that stands for all lines so far
    devices.npy       what each device scored, spent and had in the evaluated rounds
    checkpoint/       the last two states, and the heads that they need
    summary.json      the numbers of a finished run

Lines and checkpoints are one commit: after a power cut a run goes on from the last round that has both.
"""

from pmafl.files import locked, make_folder, write_atomically
from pmafl.runs.columns import map_columns
from pmafl.runs.execution import (
    carry_on,
    create,
    execute,
    identify,
    remains,
    run,
    write_new,
)
from pmafl.runs.exports import export
from pmafl.runs.identity import Identity
from pmafl.runs.models import Models
from pmafl.runs.records import read_records
from pmafl.runs.recovery import recover
from pmafl.runs.run import FEDERATION, Run, open_run, read_settings
from pmafl.runs.summary import read_summary

__all__ = [
    "FEDERATION",
    "Identity",
    "Models",
    "Run",
    "carry_on",
    "create",
    "execute",
    "export",
    "identify",
    "locked",
    "make_folder",
    "map_columns",
    "open_run",
    "read_records",
    "read_settings",
    "read_summary",
    "recover",
    "remains",
    "run",
    "write_atomically",
    "write_new",
]
