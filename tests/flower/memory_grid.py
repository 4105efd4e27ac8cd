"""A grid in memory with real client apps behind it, whose nodes can be made to fail in any way."""

import itertools
from dataclasses import dataclass, field

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from safetensors.numpy import load_file

from pmafl import runs
from pmafl.flower import client
from pmafl.learning.method import LearningState
from pmafl.world import build_world


@dataclass
class Node:
    """A node and what is wrong with it: `spoil` changes its replies or swallows them (None)."""

    config: dict
    context: Context = None
    online: bool = True
    spoil: object = None
    heard: list = field(default_factory=list)

    def __post_init__(self):
        self.restart()

    def restart(self):
        """Lose all that a process has in memory."""
        self.context = Context(0, 0, self.config, RecordDict(), {})

    def answer(self, message):
        self.heard.append((message.metadata.message_type, int(message.metadata.group_id) - 1))
        try:
            reply = client.app(message, self.context)
        except Exception as error:
            reply = Message(Error(2, str(error)), reply_to=message)
        return self.spoil(message, reply) if self.spoil else reply


class MemoryGrid(Grid):
    """Delivers at once. `nodes` by node id; their order of answering is not that of their device numbers."""

    def __init__(self, devices, state_dir=None):
        self.numbers = itertools.count()
        self.replies = {}
        self.nodes = {}
        for device in range(devices):
            config = {"partition-id": device}
            if state_dir:
                config["state-dir"] = str(state_dir / str(device))
            self.nodes[1000 - 7 * device] = Node(config)

    def node(self, device):
        return self.nodes[1000 - 7 * device]

    def set_run(self, run):
        pass

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def get_node_ids(self):
        return [number for number, node in self.nodes.items() if node.online]

    def push_messages(self, messages):
        for message in messages:
            number = str(next(self.numbers))
            message.metadata.__dict__["_message_id"] = number
            node = self.nodes[message.metadata.dst_node_id]
            self.replies[number] = node.answer(message) if node.online else None
            yield number

    def pull_messages(self, message_ids):
        return [reply for number in message_ids if (reply := self.replies.pop(number, None)) is not None]

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError


def final_state(directory):
    """The server's tensors, queues and what policy and devices remember, at the end of a run."""
    path = sorted((directory / "checkpoint").glob("state-*.safetensors"))[-1]
    return load_file(path)


def replay(directory, also_trained=()):
    """The extractor that the simulator gets when the updates that arrived are those of a federation.

    `also_trained` are (round, device) that trained without their update arriving.
    """
    task = build_world(runs.read_settings(directory)).task
    state = task.start()
    for record in runs.read_records(directory):
        number = record["round"]
        arrived = [device for device in record["scheduled"] if device not in record["failed"]]
        lost = [device for when, device in also_trained if when == number]
        held = {device: task.train(state, device, number).memory for device in lost}
        state = task.advance(state, arrived, number)
        state = LearningState(state.server, state.devices | held)
    return state.server["extractor"].numpy()
