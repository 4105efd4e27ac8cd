"""Waiting for a condition, longer than the slowest machine needs."""

import time

PATIENCE_S = 400


def wait_for(condition, what, ended=lambda: None):
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, f"waited {PATIENCE_S} s for {what}"
        assert ended() is None, f"the run ended while the test waited for {what}"
        time.sleep(0.05)
