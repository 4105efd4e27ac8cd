import numpy as np
import pytest

from tests.wireless.channels.test_channels import channel, rounds


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_shadows_are_correlated_over_rounds_as_set(correlation):
    options = {"correlation": correlation, "deviation_db": 6.0, "fading": False}
    gains, _ = rounds(channel("shadowing", options), 4)
    level_db = 10 * np.log10(gains)
    assert level_db.std(axis=1) == pytest.approx([6.0] * 4, rel=0.02)
    assert np.corrcoef(level_db)[0, 1] == pytest.approx(correlation, abs=0.01)
    assert np.corrcoef(level_db)[0, 3] == pytest.approx(correlation**3, abs=0.01)


def test_the_fading_under_the_shadow_is_independent():
    gains, states = rounds(channel("shadowing", {"correlation": 0.9, "deviation_db": 6.0}), 2)
    deviation = 6.0 * np.log(10) / 10
    faded = [
        gain / np.exp(deviation * state["shadow"] - deviation**2 / 2)
        for gain, state in zip(gains, states, strict=True)
    ]
    assert np.corrcoef(faded)[0, 1] == pytest.approx(0, abs=0.01)
    assert np.mean(faded, axis=1) == pytest.approx([1, 1], abs=0.01)
    assert np.median(faded, axis=1) == pytest.approx([np.log(2)] * 2, abs=0.01)


def test_without_deviation_it_is_the_papers_channel():
    paper = channel("exponential", {}, devices=1).law(32)
    assert channel("shadowing", {"deviation_db": 0.0}, devices=1).law(32) == pytest.approx(paper, rel=1e-6)
