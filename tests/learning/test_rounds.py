import torch

from pmafl.learning.quantise import encode
from pmafl.learning.rounds import Aggregate, LearningState


def test_the_aggregate_is_the_sample_weighted_mean():
    uploads = torch.randn(3, 1000)
    aggregate = Aggregate(torch.zeros(1000))
    for upload, samples in zip(uploads, (600, 100, 300), strict=True):
        aggregate.add(encode(upload, 32), samples)
    expected = (torch.tensor([0.6, 0.1, 0.3], dtype=torch.float64)[:, None] * uploads).sum(dim=0)
    torch.testing.assert_close(aggregate.result(), expected.float())


def test_one_device_alone_is_its_own_mean():
    upload = torch.randn(1000)
    aggregate = Aggregate(torch.zeros(1000))
    aggregate.add(encode(upload, 32), 597)
    assert torch.equal(aggregate.result(), upload)


def test_a_round_without_devices_keeps_the_extractor():
    extractor = torch.randn(10)
    assert torch.equal(Aggregate(extractor).result(), extractor)


def test_a_state_is_restored_from_arrays_to_the_bit():
    state = LearningState(torch.randn(50), torch.randn(7), {9: torch.randn(7), 2: torch.randn(7)})
    fresh = LearningState(torch.zeros(50), state.initial_head)
    read = fresh.restored(state.extractor.numpy(), {k: head.numpy() for k, head in state.heads.items()})
    assert torch.equal(read.extractor, state.extractor)
    assert set(read.heads) == {2, 9}
    assert all(torch.equal(read.head(k), state.head(k)) for k in range(12))
