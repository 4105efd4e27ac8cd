import numpy as np
import pytest

from pmafl.streams import NAMES, stream


def test_a_stream_is_the_same_whenever_it_is_asked_for():
    first = stream(7, "fading", 3).random(5)
    stream(7, "policy", 3).random(100)
    assert np.array_equal(first, stream(7, "fading", 3).random(5))


def test_seeds_names_and_indices_all_give_different_streams():
    draws = {float(stream(seed, name, i).random()) for seed in range(5) for name in NAMES for i in range(20)}
    assert len(draws) == 5 * len(NAMES) * 20


def test_streams_are_uncorrelated():
    a = stream(1, "placement").standard_normal(20_000)
    b = stream(1, "fleet").standard_normal(20_000)
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(20_000)


def test_an_unknown_name_is_refused():
    with pytest.raises(KeyError, match="no random stream is called 'weather'"):
        stream(1, "weather")
