"""The server's view of its nodes: who is which device, who failed, and how to ask them something.

Flower numbers nodes at random and calls a node alive for a minute after it died. So nodes are known here by
the device number in their profile, and a node that failed (silent, late, an error) is left in peace until it
has answered a profile query that nobody waits for. One that misbehaved (`conduct`) is not asked for some
rounds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from pmafl.errors import NoAnswer
from pmafl.flower.conduct import Conduct
from pmafl.flower.limits import Limits
from pmafl.flower.messages import (
    ORDER,
    TASK,
    WEIGHTS,
    Order,
    Profile,
    Refused,
    Score,
    Task,
    Upload,
    order_record,
    read_profile,
    read_score,
    read_upload,
    task_record,
    tensors_record,
)
from pmafl.learning.method import Upload as Weights

logger = logging.getLogger("flwr.pmafl")
QUERY = f"{MessageType.QUERY}.profile"
POLL_S = 0.2
PING_LIFETIME_S = 3600.0
Answer = TypeVar("Answer")


class Failed(Exception):
    """There is no reply to read."""


class Nodes:
    """All nodes of a run.

    Attributes:
        task: what they are told about the run.
        limits: what they can truthfully answer, and how long the server waits for it; messages live as long.
        wait_s: how long it waits for nodes to come.
        conduct: who misbehaved.
        node_of: the node of each device that was ever there.
    """

    def __init__(self, grid: Grid, task: Task, limits: Limits, wait_s: float) -> None:
        self._grid, self._task, self._limits, self._wait_s = grid, task, limits, wait_s
        self._devices, self._timeout_s = limits.devices, limits.timeout_s
        self.conduct, self.node_of = Conduct(), dict[int, int]()
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
        """The profiles of all devices that answer: at least one, unless all that are here are set aside."""
        until_s = time.monotonic() + self._wait_s
        while not (profiles := self._profiles(round_index)):
            if time.monotonic() > until_s:
                if self.conduct.aside(round_index).keys() & set(self._grid.get_node_ids()):
                    logger.warning("round %d: all nodes that are here are set aside", round_index + 1)
                    return {}
                raise NoAnswer(
                    f"round {round_index}: no device has answered for {self._wait_s:g} s; "
                    "when they are back, go on with the same flwr run"
                )
            time.sleep(POLL_S)
        return profiles

    def train(
        self,
        round_index: int,
        orders: Mapping[int, Order],
        profiles: Mapping[int, Profile],
        server: Mapping[str, Tensor],
        form: Callable[[int], Weights],
        reading: Callable[[int, Weights], Mapping[str, Tensor]] | None = None,
    ) -> dict[int, Upload]:
        """Have devices train, each by its order; give what arrived in time, can be, and has its form.

        `reading` gives the numbers in an upload; left out, these are only rounded.
        """
        parameters = tensors_record(server)
        contents = {
            device: RecordDict({ORDER: order_record(order), WEIGHTS: parameters})
            for device, order in orders.items()
        }

        def read(device: int, content: RecordDict) -> Upload:
            upload = read_upload(content, form(device), partial(reading, device) if reading else None)
            self._limits.check_report(upload.report, profiles[device], orders[device])
            return upload

        return self._ask(round_index, MessageType.TRAIN, contents, read)

    def evaluate(
        self, round_index: int, devices: list[int], server: Mapping[str, Tensor]
    ) -> dict[int, Score]:
        """Have devices test their model, and give the answers."""
        parameters = tensors_record(server)
        contents = {device: RecordDict({WEIGHTS: parameters}) for device in devices}
        return self._ask(round_index, MessageType.EVALUATE, contents, self._read_score)

    def _profiles(self, round_index: int) -> dict[int, Profile]:
        connected = set(self._grid.get_node_ids())
        self._hear_pings(connected, round_index)
        asked = connected - self._pings.keys() - self.conduct.aside(round_index).keys()
        queries = {node: self._message(node, QUERY, round_index) for node in sorted(asked)}
        return self._identify(self._exchange(queries, self._read_profile))

    def _read_profile(self, _: int, content: RecordDict) -> Profile:
        profile = read_profile(content)
        self._limits.check_profile(profile)
        return profile

    def _read_score(self, _: int, content: RecordDict) -> Score:
        score = read_score(content)
        self._limits.check_score(score)
        return score

    def _identify(self, answers: dict[int, Profile]) -> dict[int, Profile]:
        """Which node is which device; of two that claim the same, the one it was before."""
        profiles: dict[int, Profile] = {}
        for node, profile in sorted(
            answers.items(), key=lambda item: (self.node_of.get(item[1].device) != item[0], item[0])
        ):
            if profile.device in profiles:
                logger.warning("node %d also says that it is device %d: ignored", node, profile.device)
                continue
            profiles[profile.device] = profile
            self.node_of[profile.device] = node
        return dict(sorted(profiles.items()))

    def _ask(
        self,
        round_index: int,
        kind: str,
        contents: Mapping[int, RecordDict],
        read: Callable[[int, RecordDict], Answer],
    ) -> dict[int, Answer]:
        """Ask devices, and give what they answer by device; `read` gets the device and its reply."""
        device_of = {self.node_of[device]: device for device in sorted(contents)}
        messages = {
            node: self._message(node, kind, round_index, contents[device])
            for node, device in device_of.items()
        }
        answers = self._exchange(messages, lambda node, content: read(device_of[node], content))
        return {device: answers[node] for node, device in device_of.items() if node in answers}

    def _exchange(
        self, messages: Mapping[int, Message], read: Callable[[int, RecordDict], Answer]
    ) -> dict[int, Answer]:
        """Send one message to each node and read the replies.

        A node without a reply has failed, one with a reply that `read` refuses has misbehaved.
        """
        waiting = {node: self._push(message) for node, message in messages.items()}
        answers: dict[int, Answer] = {}
        until_s = time.monotonic() + self._timeout_s
        while waiting and time.monotonic() < until_s:
            for node, message_id in list(waiting.items()):
                if (reply := self._pull(message_id)) is None:
                    continue
                del waiting[node]
                try:
                    answers[node] = read(node, _content(reply))
                except Failed as failure:
                    self._fail(node, messages[node], str(failure))
                except Refused as refusal:
                    self._set_aside(node, messages[node], str(refusal))
            if waiting:
                time.sleep(POLL_S)
        for node in waiting:
            self._fail(node, messages[node], f"no answer in {self._timeout_s:g} s")
        return answers

    def _fail(self, node: int, message: Message, reason: str) -> None:
        logger.warning("node %d failed at %s: %s", node, message.metadata.message_type, reason)
        self._ping(node, int(message.metadata.group_id) - 1)

    def _set_aside(self, node: int, message: Message, reason: str) -> None:
        devices = [device for device, its_node in self.node_of.items() if its_node == node]
        round_index, kind = int(message.metadata.group_id) - 1, message.metadata.message_type
        offence = self.conduct.note(node, max(devices, default=None), round_index, kind, reason)
        logger.warning(
            "node %d (device %s) misbehaved at %s: %s; it is set aside until round %d",
            node,
            offence.device,
            kind,
            offence.reason,
            offence.until + 1,
        )

    def _ping(self, node: int, round_index: int) -> None:
        self._pings[node] = self._push(self._message(node, QUERY, round_index, lifetime_s=PING_LIFETIME_S))

    def _hear_pings(self, connected: set[int], round_index: int) -> None:
        """Take back the nodes that answered their ping; nodes that left start anew when they return."""
        self._pings = {node: ping for node, ping in self._pings.items() if node in connected}
        for node, ping in list(self._pings.items()):
            if (reply := self._pull(ping)) is None:
                continue
            try:
                self._read_profile(node, _content(reply))
            except (Failed, Refused):
                self._ping(node, round_index)
                continue
            del self._pings[node]
            logger.info("node %d is back", node)

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

    def _pull(self, message_id: str) -> Message | Failed | None:
        """The reply to a message, if there is one."""
        if not message_id:
            return Failed("the message could not be delivered")
        try:
            replies = list(self._grid.pull_messages([message_id]))
        except Exception as error:  # a reply that Flower cannot unpack must not stop the others
            return Failed(f"its reply cannot be read ({error!r:.200})")
        return replies[0] if replies else None


def _content(reply: Message | Failed) -> RecordDict:
    if isinstance(reply, Failed):
        raise reply
    if reply.has_error():
        raise Failed(f"error {reply.error.code}: {reply.error.reason!r:.200}")
    return reply.content
