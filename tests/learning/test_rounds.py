import torch
from safetensors.torch import load_file, save_file

from pmafl.learning.quantise import encode
from pmafl.learning.rounds import Aggregate, LearningState, state_from_tensors


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


def test_a_state_survives_its_file_to_the_bit(tmp_path):
    state = LearningState(torch.randn(50), torch.randn(7), {9: torch.randn(7), 2: torch.randn(7)})
    for original in (
        state,
        LearningState(torch.randn(50), torch.zeros(0)),
        LearningState(torch.zeros(0), torch.randn(7)),
    ):
        save_file(original.to_tensors(), tmp_path / "state.safetensors")
        read = state_from_tensors(load_file(tmp_path / "state.safetensors"))
        assert torch.equal(read.extractor, original.extractor)
        assert torch.equal(read.initial_head, original.initial_head)
        assert set(read.heads) == set(original.heads)
        assert all(torch.equal(read.head(k), original.head(k)) for k in range(12))
