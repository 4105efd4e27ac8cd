import torch

from pmafl.learning.rounds import LearningState


def test_a_state_is_restored_from_arrays_to_the_bit():
    state = LearningState(torch.randn(50), torch.randn(7), {9: torch.randn(7), 2: torch.randn(7)})
    fresh = LearningState(torch.zeros(50), state.initial_head)
    read = fresh.restored(state.extractor.numpy(), {k: head.numpy() for k, head in state.heads.items()})
    assert torch.equal(read.extractor, state.extractor)
    assert set(read.heads) == {2, 9}
    assert all(torch.equal(read.head(k), state.head(k)) for k in range(12))
