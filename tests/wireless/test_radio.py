import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import lambertw

from pmafl.wireless import radio

BAND_HZ, NOISE = 1e7, 10**-20.4  # 10 MHz and -174 dBm/Hz
BITS = 8_531_968.0


def rate(share, power_w, gain):
    """The paper's rate formula, theta*B*log2(1 + p*h/(theta*B*N0))."""
    return share * BAND_HZ * np.log2(1 + power_w * gain / (share * BAND_HZ * NOISE))


def test_upload_at_a_tenth_of_the_band_for_one_second():
    # x = 8531968 / (0.1 * 1e7 * 1) = 8.531968; 2^x = 256 * 2^0.531968 = 256 * 1.4459002231;
    # p = 0.1 * 1e7 * 10^-20.4 / 1e-8 * (2^x - 1) W, and E = p * 1 s.
    x = radio.spectral_efficiency(np.array(0.1), np.array(1.0), BITS, BAND_HZ)
    assert x == pytest.approx(8.531968, rel=1e-12)
    power = 1e6 * 10**-20.4 / 1e-8 * (256 * 1.4459002231 - 1)
    assert radio.upload_energy(x, np.array(1e-8), BITS, NOISE) == pytest.approx(power, rel=1e-9)


def test_one_bit_per_second_and_hertz_costs_q_n0_over_h():
    # (2^1 - 1)/1 = 1, (2^2 - 1)/2 = 1.5, (2^4 - 1)/4 = 3.75
    energy = radio.upload_energy(np.array([1.0, 2.0, 4.0]), np.array(1e-9), 1e6, 4e-21)
    assert energy == pytest.approx(4e-6 * np.array([1.0, 1.5, 3.75]), rel=1e-12)


def test_energy_meets_its_floor_as_the_efficiency_vanishes():
    floor = 1e6 * 4e-21 * 0.6931471805599453 / 1e-9
    energy = radio.upload_energy(np.array([0.0, 1e-300, 1e-12]), np.array(1e-9), 1e6, 4e-21)
    assert energy == pytest.approx(np.full(3, floor), rel=1e-11)


def test_no_band_or_a_huge_efficiency_costs_infinitely_much_without_a_warning():
    x = radio.spectral_efficiency(np.array([0.0, 1e-30, 0.5]), np.array([1.0, 1.0, 0.0]), BITS, BAND_HZ)
    assert np.isinf(radio.upload_energy(x, np.array(1e-8), BITS, NOISE)).all()


def test_largest_efficiency_undoes_the_energy_ratio():
    # In bits: (2^x - 1)/x is 1, 1.5, 3.75 and 102.3 at x = 1, 2, 4 and 10.
    limit = np.array([1.0, 1.5, 3.75, 102.3]) / np.log(2)
    assert radio.largest_efficiency(limit) / np.log(2) == pytest.approx([1, 2, 4, 10], rel=1e-12)


@given(st.floats(1e-6, 280.0))
def test_largest_efficiency_is_the_lower_lambert_branch(y):
    ratio = radio.energy_ratio(np.array(y))
    assert radio.largest_efficiency(ratio) == pytest.approx(y, rel=1e-9, abs=1e-14)
    if y > 0.1:
        textbook = -lambertw(-np.exp(-1 / ratio) / ratio, -1).real - 1 / ratio
        assert radio.largest_efficiency(ratio) == pytest.approx(textbook, rel=1e-9)


def test_no_upload_is_possible_at_or_below_the_energy_floor():
    assert (radio.largest_efficiency(np.array([0.0, 0.5, 1.0])) == 0).all()


@given(st.floats(1e-12, 600.0))
def test_price_ratio_solves_the_principal_lambert_form(y):
    z = radio.price_ratio(np.array(y))
    if y > 0.1:
        assert lambertw((z - 1) / np.e).real + 1 == pytest.approx(y, rel=1e-9)
    else:
        assert z == pytest.approx(y * y / 2 + y**3 / 3 + y**4 / 8 + y**5 / 30 + y**6 / 144, rel=1e-7)


@given(st.floats(-12, 3), st.floats(0.01, 10), st.floats(0, 3e9))
def test_min_share_fills_the_deadline_at_full_clock_and_full_power(make_problem, log_gain, power_w, extra_hz):
    problem = make_problem(
        channel_gain=[10**log_gain], max_power_w=[power_w], max_frequency_hz=[3e8 + extra_hz]
    )
    share = radio.min_share(problem)[0]
    seconds = 2.0 - problem.work_cycles[0] / problem.max_frequency_hz[0]
    if np.isinf(share):  # even the whole axis of bandwidth falls short: B -> infinity gives p*h/(N0*ln 2)
        assert power_w * problem.channel_gain[0] / (NOISE * np.log(2)) * seconds <= BITS * (1 + 1e-9)
    else:
        assert rate(share, power_w, problem.channel_gain[0]) * seconds == pytest.approx(BITS, rel=1e-6)


def test_min_share_by_hand(make_problem):
    # TU = 2 - 1 = 1 s. p*TU*h/(Q*N0) = 1 at h = Q*N0: then x = 1 and theta = Q/B = 0.1.
    problem = make_problem(
        upload_bits=1e6, samples=[1000], cycles_per_sample=[2e5], channel_gain=[1e6 * NOISE]
    )
    assert radio.min_share(problem) == pytest.approx([0.1], rel=1e-12)


def test_min_share_falls_with_the_gain(make_problem):
    share = radio.min_share(make_problem(channel_gain=np.logspace(-18, 3, 200), samples=[600] * 200))
    finite = share[np.isfinite(share)]
    assert 100 < finite.size < 200
    assert (np.diff(finite) < 0).all()


def test_a_device_without_time_or_channel_can_never_take_part(make_problem):
    problem = make_problem(samples=[600, 6000, 600], channel_gain=[1e-8, 1e-8, 0.0])
    assert np.isinf(radio.min_share(problem)).tolist() == [False, True, True]


def test_nothing_to_upload_needs_no_band(make_problem):
    problem = make_problem(upload_bits=0, samples=[600, 6000], channel_gain=[0.0, 1e-8])
    assert radio.min_share(problem).tolist() == [0.0, np.inf]


@given(
    st.floats(1e-6, 1), st.floats(1e-6, 1), st.floats(1e-3, 10), st.floats(1e-3, 10), st.floats(1e-12, 1e-3)
)
def test_more_band_or_more_time_never_costs_more(share, more_share, seconds, more_seconds, gain):
    def energy(theta, time):
        x = radio.spectral_efficiency(np.array(theta), np.array(time), BITS, BAND_HZ)
        return radio.upload_energy(x, np.array(gain), BITS, NOISE)

    assert energy(share + more_share, seconds) <= energy(share, seconds) * (1 + 1e-12)
    assert energy(share, seconds + more_seconds) <= energy(share, seconds) * (1 + 1e-12)
