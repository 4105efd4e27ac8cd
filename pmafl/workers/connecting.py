"""Connecting to a Ray cluster."""

from __future__ import annotations

import logging
import os
from typing import Any

from pmafl.errors import InputError

# What each process on a cluster needs: one thread, and no thread that spins while it waits.
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def connect(address: str | None) -> tuple[Any, bool]:
    """Ray itself, connected to the cluster at an address, or to one on this machine if none is given.

    And whether it was not connected before.
    """
    try:
        import ray
    except ImportError:
        raise InputError("Ray is not installed; pip install 'pmafl[ray]'") from None
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns that it will change
    if own := not ray.is_initialized():
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": WORKER_ENVIRONMENT},
            )
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise InputError(f"--address {address or ''}: no Ray cluster answers there ({reason})") from None
    return ray, own
