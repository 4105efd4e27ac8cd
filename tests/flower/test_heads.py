import numpy as np
import pytest
from flwr.app import Context, RecordDict

from pmafl.errors import InputError
from pmafl.flower.heads import Head, HeadStore


@pytest.fixture
def context():
    return Context(1, 1, {}, RecordDict(), {})


def head(number):
    before, after = (np.full(3, value, np.float32) for value in (number, number + 0.5))
    return Head(number, {"head": before}, {"head": after})


def test_a_head_lives_in_the_context_without_a_directory(context):
    HeadStore(context, "run", None).save(head(4))
    assert HeadStore(context, "run", None).load().round == 4
    assert HeadStore(Context(1, 1, {}, RecordDict(), {}), "run", None).load() is None


def test_a_head_survives_a_restart_on_disk(context, tmp_path):
    HeadStore(context, "run", tmp_path).save(head(4))
    restarted = Context(1, 1, {}, RecordDict(), {})
    assert np.array_equal(HeadStore(restarted, "run", tmp_path).load().after["head"], head(4).after["head"])


def test_the_newer_of_context_and_disk_counts(context, tmp_path):
    HeadStore(context, "run", tmp_path).save(head(4))
    HeadStore(Context(1, 1, {}, RecordDict(), {}), "run", tmp_path).save(head(5))
    assert HeadStore(context, "run", tmp_path).load().round == 5


def test_a_head_belongs_to_one_run(context, tmp_path):
    HeadStore(context, "run", tmp_path).save(head(4))
    assert HeadStore(context, "other", tmp_path).load() is None


def test_values_are_kept_whatever_the_order_of_their_bytes(context):
    backwards = np.arange(3, dtype=np.float32)[::-1]
    HeadStore(context, "run", None).save(Head(4, {"head": backwards}, {"head": backwards.astype(">f4")}))
    stored = HeadStore(context, "run", None).load()
    assert stored.before["head"].tolist() == stored.after["head"].tolist() == [2, 1, 0]


def test_a_round_that_is_asked_for_again_starts_from_the_head_before_it():
    assert np.array_equal(head(4).at_start_of(4)["head"], head(4).before["head"])
    assert np.array_equal(head(4).at_start_of(5)["head"], head(4).after["head"])


def test_a_server_that_went_back_further_than_a_device_remembers_is_refused():
    with pytest.raises(InputError, match=r"asks for round 4, but this device trained in round 5"):
        head(4).at_start_of(3)


def test_a_full_disk_leaves_the_head_before(context, tmp_path, monkeypatch):
    store = HeadStore(context, "run", tmp_path)
    store.save(head(4))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save(head(5))
    assert store.load().round == 4
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["head.safetensors"]


def test_a_damaged_head_is_named(context, tmp_path):
    HeadStore(context, "run", tmp_path).save(head(4))
    (tmp_path / "run" / "head.safetensors").write_bytes(b"not a head")
    with pytest.raises(InputError, match=r"head\.safetensors: damaged.*delete it"):
        HeadStore(Context(1, 1, {}, RecordDict(), {}), "run", tmp_path).load()
