"""The scheduler for other systems: one question after another, as lines (`stream`) or over HTTP (`http`).

`Asked` says which policy, with which options; `reply` answers one JSON text with another. What a policy has
to remember until the next question is a `Memory`, which the caller keeps.
"""

from pmafl.service.replies import Asked, Memory, Reply, decide_once, reply
from pmafl.service.stream import serve_lines

__all__ = ["Asked", "Memory", "Reply", "decide_once", "reply", "serve_lines"]
