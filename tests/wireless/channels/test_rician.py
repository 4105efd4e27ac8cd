import numpy as np
import pytest

from tests.wireless.channels.test_channels import channel, rounds


@pytest.mark.parametrize("k_factor_db", [-5.0, 0.0, 10.0])
def test_the_spread_is_that_of_the_k_factor(k_factor_db):
    """The variance of a Rician power of mean 1 is (1 + 2K)/(1 + K)^2."""
    k = 10 ** (k_factor_db / 10)
    gain = rounds(channel("rician", {"k_factor_db": k_factor_db}), 1)[0][0]
    assert gain.var() == pytest.approx((1 + 2 * k) / (1 + k) ** 2, rel=0.03)


def test_a_very_small_k_factor_gives_the_exponential_law():
    made, paper = (channel(model, options, devices=1) for model, options in SMALL_K)
    assert made.law(32) == pytest.approx(paper.law(32), rel=1e-6)


SMALL_K = [("rician", {"k_factor_db": -100.0}), ("exponential", {})]


def test_a_very_large_k_factor_gives_no_fading():
    assert rounds(channel("rician", {"k_factor_db": 100.0}, devices=100), 3)[0] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_scattered_paths_are_correlated_over_rounds_as_set(correlation):
    _, states = rounds(channel("rician", {"correlation": correlation}), 4)
    for name in ("real", "imaginary"):
        parts = np.stack([state[name] for state in states])
        assert np.corrcoef(parts)[0, 1] == pytest.approx(correlation, abs=0.01)
        assert np.corrcoef(parts)[0, 3] == pytest.approx(correlation**3, abs=0.01)
        assert parts.var(axis=1) == pytest.approx([0.5] * 4, rel=0.02)


def test_gains_are_correlated_over_rounds_too():
    """Without a direct path the correlation of powers is the square of that of amplitudes."""
    gains, _ = rounds(channel("rician", {"k_factor_db": -100.0, "correlation": 0.8}), 2)
    assert np.corrcoef(gains)[0, 1] == pytest.approx(0.64, abs=0.02)
