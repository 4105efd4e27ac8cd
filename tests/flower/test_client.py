"""What leaves a node: looked at in the bytes that Flower makes of its replies."""

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from pmafl.data import load as load_data
from pmafl.flower import client
from pmafl.flower.heads import HeadStore
from pmafl.flower.messages import Order, Task, order_record, task_record, tensors_record
from pmafl.learning.method import LearningState
from pmafl.learning.workload import workload
from pmafl.settings import load
from pmafl.world import build_world

ORDER = Order(2.0, 1e9, 0.3, 0.1, 1.0, 1.0, 0.5, 0.25)
OVERHEAD = 0.05


@pytest.fixture
def images(tmp_path):
    """The size of MNIST: the network, and so the payload, is the paper's."""
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(10), 30)
    x = np.clip(rng.integers(0, 256, (10, 1, 28, 28))[y] + rng.normal(0, 40, (300, 1, 28, 28)), 0, 255)
    np.savez(tmp_path / "images.npz", x=x.astype(np.uint8), y=y)
    return {"data.dataset": str(tmp_path / "images.npz"), "data.partition": "iid", "fleet.devices": 3}


@pytest.fixture
def ask(images):
    """Sends a client app a message as the server would, and gives the reply."""
    settings = load("mnist", images)
    world = build_world(settings)
    shape = list(load_data(settings.data.dataset).input_shape)
    task = Task("run", 0, settings.to_toml(), shape, 10, [0.5], [0.2])

    def ask(kind, context=None, world=world):
        records = {"task": task_record(task), "order": order_record(ORDER)}
        if kind != "query.profile":
            records["weights"] = tensors_record(world.task.start().server)
        context = context or Context(1, 1, {"partition-id": 1}, RecordDict(), {})
        return client.app(Message(RecordDict(records), 1, kind), context)

    ask.world = world
    return ask


def leaving(reply):
    """Every byte of a reply that Flower's transport carries."""
    return b"".join(part.deflate() for part in get_all_nested_objects(reply).values())


def trained(world):
    return world.task.train(world.task.start(), 1, 0)


def test_an_upload_is_the_extractor_in_16_bits_and_a_stated_overhead(ask):
    upload_bytes = workload(ask.world.settings.learning).upload_bits / 8
    assert upload_bytes == 1_066_496
    sent = len(leaving(ask("train")))
    assert upload_bytes < sent < (1 + OVERHEAD) * upload_bytes
    assert sent - upload_bytes < 2048


def test_the_upload_is_what_the_simulator_computes(ask):
    payload = trained(ask.world).upload["extractor"]
    (array,) = ask("train").content["weights"].values()
    assert array.data == payload[0].numpy().tobytes()


def test_no_predictor_and_no_data_leave_a_node(ask):
    context = Context(1, 1, {"partition-id": 1}, RecordDict(), {})
    replies = {kind: ask(kind, context) for kind in ("query.profile", "train", "evaluate")}
    assert {kind: set(reply.content) for kind, reply in replies.items()} == {
        "query.profile": {"profile"},
        "train": {"weights", "report"},
        "evaluate": {"score"},
    }
    (array,) = replies["train"].content["weights"].values()
    everything = b"".join(map(leaving, replies.values()))
    assert everything.count(array.data) == 1
    rest = everything.replace(array.data, b"")

    mine = trained(ask.world)
    payload, head = mine.upload["extractor"], mine.memory["head"]
    assert array.data == payload[0].numpy().tobytes()  # so the payload holds nothing but the extractor
    stored = HeadStore(context, "run", None).load()
    assert np.array_equal(stored.after["head"], head.numpy())  # while the head is there
    samples = ask.world.task.device_samples(1)
    secrets = {"head": head, "initial head": ask.world.task.method.memory["head"], "inputs": samples.x}
    secrets |= {f"{name} in 16 bits": values.half() for name, values in secrets.items()}
    for name, values in secrets.items():
        content = values.numpy().tobytes()
        assert len(content) > 4 * len(rest), f"the {name} would not even fit into what else is sent"
        pieces = {content[start : start + 16] for start in range(0, len(content) - 16, 16)} - {bytes(16)}
        assert not any(piece in rest for piece in pieces), name


def test_what_an_exception_says_stays_on_the_node(ask, monkeypatch, caplog):
    def fail(*_):
        raise ValueError("sample 17 is [0.25, 0.5] and lies in /home/alice")

    monkeypatch.setattr(client.Device, "learning_task", fail)
    with pytest.raises(client.DeviceFailed) as caught:
        ask("train")
    assert str(caught.value) == "ValueError; see the device's log"
    assert "alice" in caplog.text


def test_a_round_asked_for_again_gives_the_same_answer(ask, tmp_path):
    config = {"partition-id": 1, "state-dir": str(tmp_path)}
    first, again = (
        ask("train", Context(1, 1, config, RecordDict(), {})).content["weights"]["extractor/0"].data
        for _ in range(2)
    )
    assert first == again


def test_scores_follow_the_head_on_the_node(ask):
    context = Context(1, 1, {"partition-id": 1}, RecordDict(), {})
    before = ask("evaluate", context).content["score"]["loss"]
    ask("train", context)
    after = ask("evaluate", context).content["score"]["loss"]
    state = ask.world.task.start()
    metrics = ask.world.task.evaluate(LearningState(state.server, {1: trained(ask.world).memory}))
    assert after == pytest.approx(metrics.device_loss[1], rel=1e-5)
    assert after != before


def test_reports_repeat_the_model_where_nothing_is_measured(ask):
    report = ask("train").content["report"]
    assert report["compute_energy_j"] == ORDER.compute_energy_j
    assert report["upload_energy_j"] == ORDER.upload_energy_j
    assert report["measured"] == 0
    assert report["train_time_s"] > 0
