"""Measured channels: a user's file takes the place of a model's draws, round by round."""

from pmafl.wireless.cell import load_trace
from pmafl.wireless.channels.base import Channel, State
from pmafl.wireless.problem import Array


def follow(model: Channel, path: str, rounds: int) -> Channel:
    """The gains of a file, shape (rounds, devices); what a policy may know beforehand is the model's law."""
    trace = load_trace(path, rounds, model.mean_gain.size)

    def gains(state: State, round_index: int, rng: object) -> tuple[Array, State]:
        return trace[round_index], state

    return Channel(trace.mean(axis=0), gains, model.law)
