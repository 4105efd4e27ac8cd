"""Workers of a run: the same bits, whoever does the work."""

import os

import pytest

from tests.workers.crews import CASES, eager, played

LINUX = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="workers are forked on Linux alone")
pytestmark = LINUX
EVERYONE = {"run.wireless": "none", "policy.name": "uniform", "policy.options.count": 5, "run.rounds": 3}


@pytest.fixture
def busy(monkeypatch):
    """How many parts workers have done."""
    from pmafl.workers.processes import Fork

    eager(monkeypatch)
    parts = []
    give = Fork.give
    monkeypatch.setattr(Fork, "give", lambda self, *order: (parts.append(order[1]), give(self, *order))[1])
    return parts


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_workers_gives_the_same_bits(tiny, case, busy):
    overrides = tiny | EVERYONE | CASES[case]
    alone = played(overrides, 1)
    assert busy == []
    for workers in (2, 3, 5):
        assert played(overrides, workers) == alone
    # In the first round one device is trained here, to see how long it takes.
    assert busy.count("train") == 3 * (4 + 5 + 5)
    assert busy.count("score") + busy.count("outcomes") >= 3 * 2 * 2
