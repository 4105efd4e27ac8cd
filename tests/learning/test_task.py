import dataclasses

import numpy as np
import pytest
import torch

from pmafl.data.partition import Partition
from pmafl.errors import InputError
from pmafl.learning.aggregation import Mean
from pmafl.learning.method import LearningState
from pmafl.learning.quantise import decode
from pmafl.learning.task import LearningTask
from pmafl.streams import stream
from tests.learning.synthetic import dataset, learning, partition, task, whole_model


@pytest.mark.parametrize("algorithm", ["pma", "fedavg", "fedrep", "local"])
def test_devices_learn(algorithm):
    made = task(algorithm=algorithm)
    state = made.start()
    before = made.evaluate(state)
    for t in range(6):
        state = made.advance(state, range(4), t)
    after = made.evaluate(state)
    assert after.loss < before.loss / 2
    assert after.accuracy > 0.6 > before.accuracy


def test_a_state_is_never_changed_in_place():
    made = task()
    first = made.advance(made.start(), [0, 1], 0)
    extractor = first.server["extractor"].clone()
    heads = {k: held["head"].clone() for k, held in first.devices.items()}
    made.advance(first, [1, 2], 1)
    assert torch.equal(first.server["extractor"], extractor)
    assert heads.keys() == first.devices.keys()
    assert all(torch.equal(first.devices[k]["head"], head) for k, head in heads.items())


def test_a_restored_state_goes_on_to_the_bit():
    made, again = task(batch_size=16), task(batch_size=16)
    state = made.advance(made.start(), [0, 3], 0)
    copies = {k: {"head": held["head"].clone()} for k, held in state.devices.items()}
    resumed = LearningState({"extractor": state.server["extractor"].clone()}, copies)
    straight = made.advance(state, [1, 3], 1)
    later = again.advance(resumed, [1, 3], 1)
    for k in range(4):
        assert torch.equal(whole_model(made, straight, k), whole_model(again, later, k))


def test_only_devices_that_trained_have_a_head_of_their_own():
    made = task()
    state = made.advance(made.start(), [2], 0)
    assert set(state.devices) == {2}
    assert not torch.equal(state.server["extractor"], made.start().server["extractor"])
    assert not made.advance(made.start(), [], 0).devices


def test_the_order_of_the_schedule_does_not_matter():
    made = task()
    first = made.advance(made.start(), [3, 0, 1], 0)
    second = made.advance(made.start(), np.array([0, 1, 3]), 0)
    assert torch.equal(first.server["extractor"], second.server["extractor"])


def test_uploads_are_rounded_as_they_are_charged():
    made = task(upload_bits_per_parameter=16)
    extractor = made.advance(made.start(), [1], 0).server["extractor"]
    assert torch.equal(extractor, extractor.half().float())
    exact = task(upload_bits_per_parameter=32)
    extractor = exact.advance(exact.start(), [1], 0).server["extractor"]
    assert not torch.equal(extractor, extractor.half().float())


def test_device_and_server_apart_do_what_a_round_does():
    made = task()
    method, state = made.method, made.start()
    aggregate = Mean(state.server["extractor"])
    for k in (0, 2):
        rng, samples = stream(made.seed, "batches", 5, k), made.device_samples(k)
        trained = method.train(k, {"extractor": state.server["extractor"]}, method.memory, samples, rng)
        assert len(decode(trained.upload["extractor"])) == method.common
        assert len(trained.memory["head"]) == method.model.parameters - method.common
        aggregate.add(trained.upload["extractor"], int(made.samples[k]))
    after = made.advance(state, [0, 2], 5)
    assert torch.equal(aggregate.result(), after.server["extractor"])


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
