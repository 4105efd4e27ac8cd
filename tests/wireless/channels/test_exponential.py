import numpy as np
import pytest

from tests.wireless.channels.test_channels import channel, rounds


def test_fading_is_exponential_with_mean_one():
    gain = rounds(channel("exponential", {}), 1)[0][0]
    assert gain.mean() == pytest.approx(1, abs=0.01)
    assert gain.var() == pytest.approx(1, abs=0.03)
    assert (gain > 2).mean() == pytest.approx(np.exp(-2), abs=5e-3)


def test_rounds_are_independent():
    gains, states = rounds(channel("exponential", {}), 2)
    assert np.corrcoef(gains)[0, 1] == pytest.approx(0, abs=0.01)
    assert states == [{}, {}]


def test_fading_can_be_switched_off():
    still = channel("none", {}, np.array([1e-8, 1e-9, 3e-7]))
    gains, _ = rounds(still, 2)
    assert np.array_equal(gains, [[1e-8, 1e-9, 3e-7]] * 2)
    assert np.all(still.law(4) == 1)
