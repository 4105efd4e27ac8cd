"""Runs of the small problem by workers, and all that must be the same whoever does it."""

import hashlib

from pmafl.learning import model
from pmafl.rounds import play
from pmafl.settings import load
from pmafl.workers import Team, simulated_devices
from pmafl.workers import devices as worker_devices
from pmafl.workers.processes import Forks
from pmafl.world import build_world

SMALL = {"learning.model": "tests.workers.own_networks:dense"}
STATEFUL = {"learning.model": "tests.workers.own_networks:convolutional", "learning.batch_size": 8}
CASES = {
    "pma": {},
    "fedavg": SMALL | {"learning.algorithm": "fedavg", "learning.aggregation": "clipped-mean"},
    "batches": SMALL | {"learning.algorithm": "fedrep", "learning.batch_size": 8},
    "tuned": SMALL | {"learning.algorithm": "fine-tune"},
    "statistics": STATEFUL | {"learning.buffers": "personal"},
    "shared statistics": STATEFUL | {"learning.buffers": "shared"},
    "ditto": SMALL | {"learning.algorithm": "tests.own_ditto:ditto"},
    "scaffold": SMALL | {"learning.algorithm": "tests.own_scaffold:scaffold", "learning.momentum": 0.0},
    "sparse": SMALL | {"learning.algorithm": "fedavg", "learning.upload": "top-k"},
    "sizes": SMALL | {"data.partition": "dirichlet", "fleet.samples": [10, 40, 20, 15, 30, 25]},
}
EVERYONE = {"run.wireless": "none", "policy.name": "uniform", "policy.options.count": 5, "run.rounds": 3}


def eager(monkeypatch):
    """Have workers do all that they can, in small parts, however little there is to gain."""
    monkeypatch.setattr(model, "DENSE_CHUNK", 16)
    monkeypatch.setattr(worker_devices, "WARM_UP_S", -1.0)
    for name in ("start_s", "part_s"):
        monkeypatch.setattr(Forks, name, 0.0)


def played(overrides, workers, each_round=lambda devices: None, engine="local", address=None):
    """The records of a run, and a digest of all that server and devices hold in the end."""
    world = build_world(load("mnist", overrides))
    records, learning = [], None
    with simulated_devices(world, Team(workers, engine, address)) as devices:
        for state, record in play(world, devices):
            records.append(record)
            learning = state.learning
            each_round(devices)
    digest = hashlib.sha256(repr(records).encode())
    for device, held in [("server", learning.server), *sorted(learning.devices.items())]:
        for name, values in sorted(held.items()):
            digest.update(f"{device} {name} {values.dtype}".encode() + values.numpy().tobytes())
    return records, digest.hexdigest()
