from dataclasses import dataclass, field

import numpy as np
import pytest

from pmafl.brief import brief, summary


@brief
@dataclass(frozen=True)
class Thing:
    name: str
    weight: float | None = None
    parts: list[int] = field(default_factory=list)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.arange(3.0), "[0, 1, 2]"),
        (np.arange(100.0), "<100 values, 0 to 99>"),
        (np.arange(100) < 7, "<7 of 100 true>"),
        (np.zeros((10, 20), np.float32), "<10 x 20 float32>"),
        (1 / 3, "0.333333"),
        (list(range(7)), "<7 values>"),
        ([1, 2], "[1, 2]"),
        (dict.fromkeys(range(8)), "<8 entries>"),
        (Thing("a"), "<Thing>"),
        (len, "<len>"),
        ("x" * 500, "<str>"),
    ],
)
def test_a_value_is_shown_in_a_few_words(value, text):
    assert summary(value) == text


def test_what_is_none_or_empty_is_left_out():
    assert repr(Thing("a")) == "Thing(name='a')"
    assert repr(Thing("a", 2.0, [1])) == "Thing(name='a', weight=2, parts=[1])"
