import dataclasses

import numpy as np
import pytest
import torch

from pmafl.data.partition import Partition
from pmafl.errors import InputError
from pmafl.learning.aggregation import Mean
from pmafl.learning.quantise import decode
from pmafl.learning.rounds import train_device
from pmafl.learning.task import LearningTask
from pmafl.streams import stream
from tests.learning.synthetic import dataset, learning, partition, task


@pytest.mark.parametrize("algorithm", ["pma", "fedavg", "fedrep", "local"])
def test_devices_learn(algorithm):
    made = task(algorithm=algorithm)
    state = made.start()
    before = made.evaluate(state)
    for t in range(6):
        state, _ = made.advance(state, range(4), t)
    after = made.evaluate(state)
    assert after.loss < before.loss / 2
    assert after.accuracy > 0.6 > before.accuracy


def test_a_state_is_never_changed_in_place():
    made = task()
    first, _ = made.advance(made.start(), [0, 1], 0)
    extractor, heads = first.extractor.clone(), {k: head.clone() for k, head in first.heads.items()}
    made.advance(first, [1, 2], 1)
    assert torch.equal(first.extractor, extractor)
    assert heads.keys() == first.heads.keys()
    assert all(torch.equal(first.heads[k], head) for k, head in heads.items())


def test_a_restored_state_goes_on_to_the_bit():
    made, again = task(batch_size=16), task(batch_size=16)
    state, _ = made.advance(made.start(), [0, 3], 0)
    heads = {k: head.numpy() for k, head in state.heads.items()}
    resumed = again.start().restored(state.extractor.numpy(), heads)
    straight, _ = made.advance(state, [1, 3], 1)
    later, _ = again.advance(resumed, [1, 3], 1)
    assert torch.equal(straight.extractor, later.extractor)
    assert all(torch.equal(straight.head(k), later.head(k)) for k in range(4))


def test_only_devices_that_trained_have_a_head_of_their_own():
    made = task()
    state, info = made.advance(made.start(), [2], 0)
    assert set(state.heads) == {2}
    assert info.samples == made.samples[2]
    assert info.update_norm > 0
    assert not made.advance(made.start(), [], 0)[0].heads


def test_the_order_of_the_schedule_does_not_matter():
    made = task()
    first, _ = made.advance(made.start(), [3, 0, 1], 0)
    second, _ = made.advance(made.start(), np.array([0, 1, 3]), 0)
    assert torch.equal(first.extractor, second.extractor)


def test_uploads_are_rounded_as_they_are_charged():
    made = task(upload_bits_per_parameter=16)
    state, _ = made.advance(made.start(), [1], 0)
    assert torch.equal(state.extractor, state.extractor.half().float())
    exact = task(upload_bits_per_parameter=32)
    state, _ = exact.advance(exact.start(), [1], 0)
    assert not torch.equal(state.extractor, state.extractor.half().float())


def test_device_and_server_apart_do_what_a_round_does():
    made = task()
    state = made.start()
    aggregate = Mean(state.extractor)
    for k in (0, 2):
        rng, samples = stream(made.seed, "batches", 5, k), made.device_samples(k)
        payload, head = train_device(
            made.algorithm, made.engine, state.extractor, state.head(k), samples, rng, made.bits_per_parameter
        )
        assert len(decode(payload)) == made.shared
        assert len(head) == made.model.parameters - made.shared
        aggregate.add(payload, int(made.samples[k]))
    assert torch.equal(aggregate.result(), made.advance(state, [0, 2], 5)[0].extractor)


def test_inputs_are_scaled_as_asked():
    data = dataset()
    for inputs in ("standardised", "unit"):
        made = LearningTask(learning(), data, partition(data), 1, inputs)
        x, y = made.device_samples(1)
        rows = partition(data).train[1]
        np.testing.assert_allclose(x.numpy(), data.scaled(data.x_train[rows], inputs))
        assert y.tolist() == data.y_train[rows].tolist()


def test_images_reach_a_convolution_with_channels_last():
    assert task("cnn").device_samples(0).x.is_contiguous(memory_format=torch.channels_last)


def test_data_that_cannot_be_trained_on_is_refused_in_one_line():
    data = dataset()
    parts = partition(data)
    with pytest.raises(InputError, match="labels from 0 to 9; must be 0 to 8"):
        LearningTask(learning(), dataclasses.replace(data, classes=9), parts, 1)
    empty = Partition([*parts.train[:3], np.array([], dtype=np.int64)], parts.test)
    with pytest.raises(InputError, match="device 3 has no training samples"):
        LearningTask(learning(), data, empty, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said():
    with pytest.raises(InputError, match="no GPU"):
        task(device="cuda")
