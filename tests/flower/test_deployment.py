"""Real SuperLink, real SuperNodes, TLS and keys on loopback, and what happens when they are killed."""

import re
import signal

import numpy as np
import pytest

from pmafl import runs
from pmafl.flower.loopback import family, running, send_signal
from pmafl.learning.workload import workload
from pmafl.plots import plot_run
from tests.flower.memory_grid import final_state, replay
from tests.flower.waiting import PATIENCE_S, wait_for
from tests.flower.wire import Wire

pytestmark = [pytest.mark.federation, pytest.mark.timeout(1500)]
OVERHEAD = 0.05


def test_killed_nodes_and_servers_come_back(tmp_path, images):
    out = tmp_path / "run"
    changes = (
        f"data.dataset={images} data.partition=iid fleet.devices=3 fleet.samples=60 policy.name=all "
        "run.rounds=3 run.evaluate_every=3"
    )
    config = {"settings": "mnist", "set": changes, "out": out, "grace-s": 90.0}
    with running(tmp_path / "federation") as federation:
        federation.make_certificate()
        superlink = federation.start_superlink()
        federation.start_gateway()
        wires = [Wire(federation.device_port) for _ in range(3)]
        nodes = []
        for number, wire in enumerate(wires):
            federation.make_key(f"device-{number}")
            federation.register(f"device-{number}")
            nodes.append(start_device(federation, number, wire))
        first = federation.run(config)
        sizes = upload_sizes(federation, wires, first.poll)

        log = federation.log("device-2")
        wait_for(lambda: received(log.read_text(), "train", 2), "the order of round 2", first.poll)
        kill(nodes[2])
        saved = out / "checkpoint" / "state-00000002.safetensors"
        wait_for(saved.exists, "round 2 to end without device 2", first.poll)
        kill(superlink)
        kill(first)

        federation.start_superlink()
        restart_device(federation, 2, wires[2])
        assert federation.run(config).wait(PATIENCE_S) == 0
        for wire in wires:
            wire.close()

    records = runs.read_records(out)
    assert [record["scheduled"] for record in records] == [[0, 1, 2]] * 3
    assert [record["failed"] for record in records] == [[], [2], []]
    # The same bits as without a network: device 2 trained round 3 with its head of round 1.
    assert np.array_equal(final_state(out)["server/extractor"], replay(out))
    assert runs.read_summary(out)["final_accuracy"] is not None
    assert all(path.stat().st_size > 1000 for path in plot_run(out))

    upload_bytes = workload(runs.read_settings(out).learning).upload_bits / 8
    for record in records:
        for size in record["upload_bytes"]:
            assert size is None or upload_bytes <= size < (1 + OVERHEAD) * upload_bytes
    for size in sizes:
        assert upload_bytes < size < (1 + OVERHEAD) * upload_bytes


def upload_sizes(federation, wires, ended):
    """What each node sends from the arrival of its first order to the end of its upload, encrypted."""
    before, after = {}, {}

    def all_sent():
        for number, wire in enumerate(wires):
            log = federation.log(f"device-{number}").read_text()
            if number not in before and received(log, "train", 1):
                before[number] = wire.sent
            if number not in after and re.search(r"(?s)Sending: train message.*Sent successfully", log):
                after[number] = wire.sent
        return len(after) == len(wires)

    wait_for(all_sent, "the uploads of round 1", ended)
    sizes = [after[number] - before[number] for number in range(len(wires))]
    print(f"bytes on the wire for an upload: {sizes}")
    return sizes


def kill(process):
    """SIGKILL, to all at once: the machine lost its power."""
    send_signal(family(process), signal.SIGKILL)


def start_device(federation, number, wire):
    config = {"partition-id": number, "state-dir": federation.folder / f"heads-{number}"}
    return federation.start_node(f"device-{number}", config, address=wire.address)


def restart_device(federation, number, wire):
    """Start a node that died until the SuperLink, which thinks for a while that it lives, lets it in."""
    connected = federation.log(f"device-{number}").read_text().count("SuperNode ID")

    def is_back():
        nonlocal process
        if process.poll() is not None:
            process = start_device(federation, number, wire)
        return federation.log(f"device-{number}").read_text().count("SuperNode ID") > connected

    process = start_device(federation, number, wire)
    wait_for(is_back, f"device {number} to be let in again")


def received(log, kind, number):
    """Whether a node's log says that a message of a round has arrived."""
    return re.search(rf"ROUND {number}\]\n.*Receiving: {kind} message", log) is not None
