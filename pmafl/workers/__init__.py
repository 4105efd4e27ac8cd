"""Work in several processes: whole runs side by side, and the devices of one run's rounds.

How many there are never changes a result, only how long it takes.
"""

from pmafl.workers.connecting import WORKER_ENVIRONMENT, connect
from pmafl.workers.cores import cores
from pmafl.workers.devices import Engine, Team, WorkerDevices, simulated_devices
from pmafl.workers.tasks import WorkerDied, run_tasks

__all__ = [
    "WORKER_ENVIRONMENT",
    "Engine",
    "Team",
    "WorkerDevices",
    "WorkerDied",
    "connect",
    "cores",
    "run_tasks",
    "simulated_devices",
]
