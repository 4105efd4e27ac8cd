"""The server's view of its nodes: who is which device, who failed, and how to ask them something.

Flower numbers nodes at random and calls a node alive for a minute after it died. So nodes are known here by
the device number in their profile, and a node that failed once (silent, late, an error, a reply that makes no
sense) is left in peace until it has answered a profile query that nobody waits for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from pmafl.errors import NoAnswer
from pmafl.flower.messages import (
    EXTRACTOR,
    ORDER,
    TASK,
    Order,
    Profile,
    Refused,
    Score,
    Task,
    Upload,
    order_record,
    payload_record,
    read_profile,
    read_score,
    read_upload,
    task_record,
)
from pmafl.learning.quantise import Payload

logger = logging.getLogger("flwr.pmafl")
QUERY = f"{MessageType.QUERY}.profile"
POLL_S = 0.2
PING_LIFETIME_S = 3600.0
Answer = TypeVar("Answer")


class Nodes:
    """All nodes of a run.

    Attributes:
        task: what they are told about the run.
        devices: how many there can be.
        timeout_s: how long the server waits for answers; messages live as long.
        wait_s: how long it waits for nodes to come.
    """

    def __init__(self, grid: Grid, task: Task, devices: int, timeout_s: float, wait_s: float) -> None:
        self._grid, self._task, self._devices = grid, task, devices
        self._timeout_s, self._wait_s = timeout_s, wait_s
        self._node_of: dict[int, int] = {}  # device -> node
        self._pings: dict[int, str] = {}  # node that failed -> the query it has to answer first

    def gather(self) -> None:
        """Wait until as many nodes as devices are connected, or until waiting has become pointless."""
        until_s = time.monotonic() + self._wait_s
        while (there := len(set(self._grid.get_node_ids()))) < self._devices:
            if time.monotonic() > until_s:
                logger.warning("%d of %d nodes are here; the others may come later", there, self._devices)
                return
            time.sleep(POLL_S)

    def profiles(self, round_index: int) -> dict[int, Profile]:
        """The profiles of all devices that answer, at least one."""
        until_s = time.monotonic() + self._wait_s
        while not (profiles := self._profiles(round_index)):
            if time.monotonic() > until_s:
                raise NoAnswer(
                    f"round {round_index}: no device has answered for {self._wait_s:g} s; "
                    "when they are back, go on with the same flwr run"
                )
            time.sleep(POLL_S)
        return profiles

    def train(
        self, round_index: int, orders: Mapping[int, Order], extractor: Tensor, like: Payload
    ) -> dict[int, Upload]:
        """Have devices train, each by its order; give what arrived in time and has the form of `like`."""
        parameters = payload_record((extractor,))
        contents = {
            device: RecordDict({ORDER: order_record(order), EXTRACTOR: parameters})
            for device, order in orders.items()
        }
        return self._ask(round_index, MessageType.TRAIN, contents, lambda content: read_upload(content, like))

    def evaluate(self, round_index: int, devices: list[int], extractor: Tensor) -> dict[int, Score]:
        """Have devices test their model, and give the answers."""
        parameters = payload_record((extractor,))
        contents = {device: RecordDict({EXTRACTOR: parameters}) for device in devices}
        return self._ask(round_index, MessageType.EVALUATE, contents, read_score)

    def _profiles(self, round_index: int) -> dict[int, Profile]:
        connected = set(self._grid.get_node_ids())
        self._hear_pings(connected, round_index)
        queries = {node: self._message(node, QUERY, round_index) for node in connected - set(self._pings)}
        answers = self._exchange(queries, lambda content: read_profile(content, self._devices))
        return self._identify(answers)

    def _identify(self, answers: dict[int, Profile]) -> dict[int, Profile]:
        """Which node is which device; of two that claim the same, the one it was before."""
        profiles: dict[int, Profile] = {}
        for node, profile in sorted(
            answers.items(), key=lambda item: (self._node_of.get(item[1].device) != item[0], item[0])
        ):
            if profile.device in profiles:
                logger.warning("node %d also says that it is device %d: ignored", node, profile.device)
                continue
            profiles[profile.device] = profile
            self._node_of[profile.device] = node
        return dict(sorted(profiles.items()))

    def _ask(
        self,
        round_index: int,
        kind: str,
        contents: Mapping[int, RecordDict],
        read: Callable[[RecordDict], Answer],
    ) -> dict[int, Answer]:
        """Ask devices, and give what they answer by device."""
        messages = {
            self._node_of[device]: self._message(self._node_of[device], kind, round_index, content)
            for device, content in contents.items()
        }
        answers = self._exchange(messages, read)
        return {
            device: answers[self._node_of[device]]
            for device in sorted(contents)
            if self._node_of[device] in answers
        }

    def _exchange(
        self, messages: Mapping[int, Message], read: Callable[[RecordDict], Answer]
    ) -> dict[int, Answer]:
        """Send one message to each node and read the replies; whoever gives no good one has failed."""
        waiting = {node: self._push(message) for node, message in messages.items()}
        answers: dict[int, Answer] = {}
        until_s = time.monotonic() + self._timeout_s
        while waiting and time.monotonic() < until_s:
            for node, message_id in list(waiting.items()):
                if (reply := self._pull(message_id)) is None:
                    continue
                del waiting[node]
                try:
                    answers[node] = read(_content(reply))
                except Refused as refusal:
                    self._fail(node, messages[node], str(refusal))
            if waiting:
                time.sleep(POLL_S)
        for node in waiting:
            self._fail(node, messages[node], f"no answer in {self._timeout_s:g} s")
        return answers

    def _fail(self, node: int, message: Message, reason: str) -> None:
        logger.warning("node %d failed at %s: %s", node, message.metadata.message_type, reason)
        self._ping(node, int(message.metadata.group_id) - 1)

    def _ping(self, node: int, round_index: int) -> None:
        self._pings[node] = self._push(self._message(node, QUERY, round_index, lifetime_s=PING_LIFETIME_S))

    def _hear_pings(self, connected: set[int], round_index: int) -> None:
        """Take back the nodes that answered their ping; nodes that left start anew when they return."""
        self._pings = {node: ping for node, ping in self._pings.items() if node in connected}
        for node, ping in list(self._pings.items()):
            if (reply := self._pull(ping)) is None:
                continue
            try:
                read_profile(_content(reply), self._devices)
                del self._pings[node]
                logger.info("node %d is back", node)
            except Refused:
                self._ping(node, round_index)

    def _message(
        self,
        node: int,
        kind: str,
        round_index: int,
        content: RecordDict | None = None,
        lifetime_s: float | None = None,
    ) -> Message:
        records = RecordDict(dict(content or {}))
        records[TASK] = task_record(replace(self._task, round=round_index))
        ttl = lifetime_s or self._timeout_s
        return Message(records, node, kind, ttl=ttl, group_id=str(round_index + 1))

    def _push(self, message: Message) -> str:
        """Send one message and give its number; one that could not be sent is never answered."""
        sent = list(self._grid.push_messages([message]))
        return str(sent[0]) if sent and sent[0] else ""

    def _pull(self, message_id: str) -> Message | Refused | None:
        """The reply to a message, if there is one."""
        if not message_id:
            return Refused("the message could not be delivered")
        try:
            replies = list(self._grid.pull_messages([message_id]))
        except Exception as error:  # a reply that Flower cannot unpack must not stop the others
            return Refused(f"its reply cannot be read ({error!r:.200})")
        return replies[0] if replies else None


def _content(reply: Message | Refused) -> RecordDict:
    if isinstance(reply, Refused):
        raise reply
    if reply.has_error():
        raise Refused(f"error {reply.error.code}: {reply.error.reason!s:.200}")
    return reply.content
