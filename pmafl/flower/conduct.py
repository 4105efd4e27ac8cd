"""Which nodes misbehaved, and for how long they are set aside.

Misbehaving is to send what no honest device sends: impossible numbers, NaN, another form. To be silent, late
or out of order is not. All that is known here follows from the offences in the rounds' records, so a server
that starts again knows the same. Nodes are told apart by Flower's number, which belongs to a key: the number
of a device is only what a node says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FIRST_ROUNDS_ASIDE = 4  # each further offence of a node doubles it
MOST_ROUNDS_ASIDE = 1024
REASON_LENGTH = 200


@dataclass(frozen=True)
class Offence:
    """What a node did, and what follows.

    Attributes:
        node: Flower's number of the node.
        device: which device it was until then, if it was one.
        round: when, counted from 0.
        message: what it was asked.
        reason: what was wrong with the answer.
        until: the round from which on it is asked again.
    """

    node: int
    device: int | None
    round: int
    message: str
    reason: str
    until: int


class Conduct:
    """The offences of a run so far."""

    def __init__(self, offences: Iterable[Offence] = ()) -> None:
        self._offences = list(offences)

    def note(self, node: int, device: int | None, round_index: int, message: str, reason: str) -> Offence:
        """Set a node aside from the next round on."""
        before = sum(offence.node == node for offence in self._offences)
        rounds = min(FIRST_ROUNDS_ASIDE * 2**before, MOST_ROUNDS_ASIDE)
        until = round_index + 1 + rounds
        self._offences.append(Offence(node, device, round_index, message, reason[:REASON_LENGTH], until))
        return self._offences[-1]

    def aside(self, round_index: int) -> dict[int, Offence]:
        """The nodes that are not to be asked (any more) in a round, each with its latest offence."""
        return {o.node: o for o in self._offences if o.round <= round_index < o.until}

    def of_round(self, round_index: int) -> list[Offence]:
        return [offence for offence in self._offences if offence.round == round_index]
