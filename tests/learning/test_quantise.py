import pytest
import torch

from pmafl.learning.quantise import decode, encode
from pmafl.learning.workload import rounded_bits


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("count", [0, 1, 1024, 2500])
def test_a_payload_has_exactly_the_bits_that_are_charged(bits, count):
    payload = encode(torch.randn(count), bits)
    assert sum(8 * t.numel() * t.element_size() for t in payload) == rounded_bits(count, bits)
    assert decode(payload).shape == (count,)


def test_32_bits_lose_nothing_and_16_bits_are_half_precision():
    values = torch.randn(3000)
    assert torch.equal(decode(encode(values, 32)), values)
    assert torch.equal(decode(encode(values, 16)), values.half().float())


def test_8_bits_are_within_half_a_step_of_their_block():
    values = torch.cat([torch.randn(1024), 1e-4 * torch.randn(1024), torch.zeros(100)])
    error = (decode(encode(values, 8)) - values).abs()
    steps = torch.tensor([values[:1024].abs().max(), values[1024:2048].abs().max()]) / 127
    assert error[:1024].max() <= steps[0] * 0.501
    assert error[1024:2048].max() <= steps[1] * 0.501
    assert not error[2048:].any()


def test_encoding_twice_is_encoding_once():
    values = torch.randn(2000)
    for bits in (16, 32):
        once = decode(encode(values, bits))
        assert torch.equal(decode(encode(once, bits)), once)
