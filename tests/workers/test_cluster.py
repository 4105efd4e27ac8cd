"""Workers on Ray: the same bits as in one process, also when a node goes away. Two nodes on this machine."""

import builtins
import pickle
import socket
import sys
import threading

import pytest
import torch

from pmafl import plugins
from pmafl.errors import InputError
from pmafl.settings import load
from pmafl.workers import devices as worker_devices
from pmafl.workers.cluster import Actor, Cluster, origin_of, unwrap, wrap
from pmafl.workers.connecting import connect
from pmafl.world import build_world
from tests.workers.crews import CASES, EVERYONE, played


def test_what_travels_arrives_as_it_was():
    content = {
        "a": [torch.arange(3.0), (torch.ones(2, 2, dtype=torch.bfloat16), 5)],
        "b": torch.zeros(0, dtype=torch.half),
        "c": None,
    }
    found = unwrap(wrap(content))
    assert torch.equal(found["a"][0], content["a"][0])
    assert torch.equal(found["a"][1][0], content["a"][1][0])
    assert found["a"][1][1] == 5
    assert found["b"].dtype == torch.half
    assert found["b"].shape == (0,)
    assert found["c"] is None


def test_an_actor_does_what_this_process_does(tiny):
    world = build_world(load("mnist", tiny | CASES["ditto"]))
    actor = Actor(pickle.loads(pickle.dumps(origin_of(world.task, world.settings), protocol=5)))
    assert actor.start() is None
    work = world.task.training(world.task.start(), [2], 0)
    parcel, error, _ = actor.do(work.kind, 1, wrap(work.shared), wrap(work.parts[0]))
    assert error is None
    found, expected = unwrap(parcel), world.task.train(world.task.start(), 2, 0)
    assert torch.equal(found.upload["model"][0], expected.upload["model"][0])
    assert torch.equal(found.memory["personal"], expected.memory["personal"])


def test_a_users_code_goes_along_to_a_machine_that_does_not_have_it(tiny, tmp_path, monkeypatch):
    folder = tmp_path / "mine_alone"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "code.py").write_text("from mine_alone.more import ditto\n")
    (folder / "more.py").write_text("from tests.own_ditto import ditto\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = load("mnist", tiny | {"learning.algorithm": "mine_alone.code:ditto"})
    world = build_world(settings)
    origin = origin_of(world.task, settings)
    assert set(origin.files) == {"mine_alone/__init__.py", "mine_alone/code.py", "mine_alone/more.py"}
    for name in [name for name in sys.modules if name.startswith("mine_alone")]:
        monkeypatch.delitem(sys.modules, name)
    sys.path.remove(str(tmp_path))
    folder.rename(tmp_path / "elsewhere")
    assert Actor(origin).start() is None
    assert not sys.modules["mine_alone"].__file__.startswith(str(tmp_path))
    assert plugins.files_of("numpy:array") == {}


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without_ray(name, *rest):
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(InputError, match=r"^Ray is not installed; pip install 'pmafl\[ray\]'$"):
        connect(None)


def test_an_address_where_nobody_is_is_refused_at_once():
    pytest.importorskip("ray")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"^--address {address}: no Ray cluster answers there"):
            connect(address)


@pytest.mark.heavy
def test_a_cluster_gives_the_same_bits_also_when_a_node_goes_away_in_the_middle(tiny, monkeypatch):
    ray = pytest.importorskip("ray")
    from ray import cluster_utils

    monkeypatch.setattr(worker_devices, "WARM_UP_S", -1.0)
    monkeypatch.setattr(Cluster, "part_s", 0.0)
    overrides = tiny | EVERYONE | CASES["ditto"] | {"run.rounds": 6}
    slow = {"learning.algorithm": "tests.workers.own_slow:slow", "learning.options.seconds": 0.3}
    nodes = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        doomed = nodes.add_node(num_cpus=1)
        whole = played(overrides, None, engine="ray", address=nodes.address)
        rounds = []

        def kill_in_the_middle(devices):
            rounds.append(len(devices._crew._hands))
            if len(rounds) == 2:
                # A moment later, when the next round has begun.
                threading.Timer(0.4, nodes.remove_node, (doomed, False)).start()

        without = played(overrides | slow, None, kill_in_the_middle, engine="ray", address=nodes.address)
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert rounds[0] == 2
    assert whole == played(overrides, 1)
    assert without == played(overrides | slow | {"learning.options.seconds": 0.0}, 1)
