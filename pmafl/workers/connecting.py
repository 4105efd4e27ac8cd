"""Connecting to a Ray cluster."""

from __future__ import annotations

import logging
import os
import re
import socket
from typing import Any

from pmafl.errors import InputError, first_line

# What each process on a cluster needs: one thread, and no thread that spins while it waits.
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
PATIENCE_S = 10.0  # until whoever is at an address must have answered; Ray itself tries for minutes


def connect(address: str | None) -> tuple[Any, bool]:
    """Ray itself, connected to the cluster at an address, or to one on this machine if none is given.

    And whether it was not connected before.
    """
    try:
        import ray
    except ImportError:
        raise InputError("Ray is not installed; pip install 'pmafl[ray]'") from None
    if ray.is_initialized():
        return ray, False
    if address:
        _knock(address)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns that it will change
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": WORKER_ENVIRONMENT},
        )
    except Exception as error:  # of all kinds
        where = f"--address {address}: cannot be connected to" if address else "Ray cannot be started here"
        raise InputError(f"{where} ({first_line(error)})") from error
    return ray, True


def _knock(address: str) -> None:
    """Refuse an address where nobody listens; other kinds of addresses are left to Ray."""
    found = re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address)
    if found:
        try:
            socket.create_connection((found[1], int(found[2])), PATIENCE_S).close()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"--address {address}: no Ray cluster answers there ({reason})") from None
