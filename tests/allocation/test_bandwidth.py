import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import lambertw

from pmafl.allocation.bandwidth import bandwidth, lambert_efficiency, log_price_ratio, smallest_share
from pmafl.allocation.frontier import frontiers
from pmafl.allocation.sets import Sets
from tests.rounding import ROUNDING

UPLOAD = 0.25  # of the deadline of 2 s


def divide(problem, upload=UPLOAD):
    devices = np.arange(problem.devices)
    sets = Sets.prefixes(devices, [problem.devices])
    upload = np.full(problem.devices, upload)
    return bandwidth(frontiers(problem), sets, problem.queue_j, 1 - upload, upload)


@given(st.floats(-4, 300))
def test_the_efficiency_is_the_principal_lambert_branch(log_z):
    textbook = lambertw((np.exp(log_z) - 1) / np.e).real + 1
    assert np.exp(lambert_efficiency(np.array([log_z]))) == pytest.approx([textbook], rel=1e-6)


@given(st.floats(-200, 5000))
def test_the_efficiency_is_right_far_beyond_the_textbook_form(log_z):
    assert log_price_ratio(lambert_efficiency(np.array([log_z]))) == pytest.approx(
        [log_z], rel=1e-9, abs=1e-9
    )


def test_shares_fill_the_band_and_equalise_what_it_is_worth(make_problem):
    problem = make_problem(channel_gain=np.logspace(-9, -7, 6), queue_j=[0.2, 1, 3, 0.5, 0.7, 2])
    share = divide(problem)
    assert share.sum() == pytest.approx(1, rel=1e-12)
    y = np.log(2) * 8_531_968 / (share * 1e7 * UPLOAD * 2)
    worth = problem.queue_j * 10**-20.4 * 1e7 / problem.channel_gain * (1 + np.exp(y) * (y - 1))
    assert worth == pytest.approx(np.full(6, worth[0]), rel=1e-9)


def test_more_band_goes_to_weak_channels_and_long_queues(make_problem):
    assert np.all(np.diff(divide(make_problem(channel_gain=np.logspace(-9, -6, 8)))) < 0)
    assert np.all(np.diff(divide(make_problem(queue_j=np.logspace(-1, 1, 8)))) > 0)


def test_nobody_exceeds_the_power_limit(make_problem):
    problem = make_problem(queue_j=[1e-9, 1.0, 1.0])  # almost no queue: would get almost no band
    share = divide(problem)
    x = 8_531_968 / (share * 1e7 * UPLOAD * 2)
    power_w = share * 1e7 * 10**-20.4 / 1e-8 * (2**x - 1)
    assert power_w[0] == pytest.approx(1.0, rel=1e-9)
    assert np.all(power_w[1:] < 1)


def test_free_members_get_their_smallest_share(make_problem):
    problem = make_problem(queue_j=[0.0, 1.0])
    upload = np.full(2, UPLOAD)
    smallest = smallest_share(frontiers(problem), 1 - upload, upload)[0]
    assert divide(problem)[0] == pytest.approx(smallest, rel=ROUNDING)


def test_an_energy_cap_raises_the_smallest_share(make_problem):
    upload = np.array([UPLOAD, UPLOAD])
    computing_j = 5e-27 * 412_759_500**3 / 1.5**2
    problem = make_problem(queue_j=[1, 1], energy_cap_j=[np.inf, computing_j + 0.01])
    free, capped = smallest_share(frontiers(problem), 1 - upload, upload)
    assert capped > free
    x = 8_531_968 / (capped * 1e7 * UPLOAD * 2)
    assert 8_531_968 * 10**-20.4 / 1e-8 * (2**x - 1) / x == pytest.approx(0.01, rel=1e-9)
