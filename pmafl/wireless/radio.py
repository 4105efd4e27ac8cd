r"""The upload (the paper's Section II-D), written in the spectral efficiency x = Q/(theta*B*TU).

In this form the upload energy depends on x alone, power is energy over time, and the share of the band is
Q/(B*TU*x). Everything stays exact from x -> 0, where the energy meets its floor, to x so large that 2^x
overflows, where it is infinite.
"""

import numpy as np

from pmafl.wireless.cpu import fastest_time
from pmafl.wireless.problem import Array, RoundProblem

LN2 = float(np.log(2.0))
_LOG_LARGEST = 700.0  # e^y is finite up to here


def spectral_efficiency(
    bandwidth_share: Array, upload_time_s: Array, upload_bits: float | Array, bandwidth_hz: float
) -> Array:
    """Bits per second and hertz that an upload needs, x = Q/(theta*B*TU); infinite without band or time."""
    product = np.asarray(bandwidth_share * bandwidth_hz * upload_time_s)
    return np.divide(upload_bits, product, out=np.full_like(product, np.inf), where=product > 0)


def upload_energy(
    spectral_efficiency: Array, channel_gain: Array, upload_bits: float | Array, noise_w_per_hz: float
) -> Array:
    r"""Energy in joules to upload Q bits at spectral efficiency x over a channel of gain h.

    .. math:: E^U = \frac{Q N_0}{h} \, \frac{2^x - 1}{x}

    It does not depend on how the bits are spread over time and bandwidth, only on x. Its floor, at x -> 0, is
    Q*N0*ln(2)/h.

    >>> float(upload_energy(np.array(1.0), np.array(1e-8), 1e6, 4e-21))
    4e-07
    """
    return upload_bits * noise_w_per_hz * LN2 / channel_gain * energy_ratio(spectral_efficiency * LN2)


def energy_ratio(y: Array) -> Array:
    """Upload energy over its floor at y = x*ln(2) nats: (e^y - 1)/y, from 1 at y = 0."""
    bounded = np.clip(y, 1e-300, _LOG_LARGEST)
    return np.where(y > _LOG_LARGEST, np.inf, np.expm1(bounded) / bounded)


def price_ratio(y: Array) -> Array:
    r"""Marginal worth of band at y = x*ln(2) nats, per unit of energy floor and upload time: 1 + e^y*(y - 1).

    It is :math:`y^2` times the slope of `energy_ratio`, equal to z in
    :math:`y = W_0((z - 1)/e) + 1`. Needs y at most 700.
    """
    return np.exp(y) * exp_remainder(y)


def exp_remainder(y: Array) -> Array:
    """e^-y - 1 + y, by its series where the difference would cancel."""
    difference = np.expm1(-y) + y
    small = y < 0.05
    if not np.count_nonzero(small):  # faster than any()
        return difference
    series = y * y / 2 * (1 - y / 3 * (1 - y / 4 * (1 - y / 5 * (1 - y / 6 * (1 - y / 7 * (1 - y / 8))))))
    return np.where(small, series, difference)


def largest_efficiency(energy_ratio_limit: Array) -> Array:
    r"""Largest y = x*ln(2) in nats with (e^y - 1)/y at most a; 0 where a <= 1 and no upload is possible.

    .. math:: y = -W_{-1}\!\left(-\tfrac1a e^{-1/a}\right) - \tfrac1a

    Solved by Newton's method on log((e^y - 1)/y), which is convex: after the first step the iterates fall
    monotonically. The textbook form loses all digits near a = 1.
    """
    log_limit = np.log(np.maximum(energy_ratio_limit, 1.0))
    y = np.minimum(2 * log_limit, log_limit + np.log1p(2 * log_limit) + 0.5)
    for _ in range(7):
        y = np.maximum(y, 1e-100)
        decay = -np.expm1(-y)
        value = y + np.log(decay / y)
        y = y - (value - log_limit) * y * decay / exp_remainder(y)
    return np.where(energy_ratio_limit > 1.0, np.maximum(y, 0.0), 0.0)


def min_share(problem: RoundProblem) -> Array:
    r"""Share of the band that each device cannot do without: theta_min.

    It is what the device needs when it computes at f_max and sends at p_max for the rest of the deadline;
    infinite where even that is not enough (no time left, or too weak a channel for any bandwidth). A set of
    devices is feasible if and only if their minimum shares sum to at most 1. Energy caps are left aside.
    """
    upload_time_s = problem.work_time_s - fastest_time(problem)
    if problem.silent:
        return np.where(upload_time_s >= 0, 0.0, np.inf)
    able = (upload_time_s > 0) & (problem.channel_gain > 0)
    energy_limit_j = problem.max_power_w * np.where(able, upload_time_s, 0.0)
    floor_times_gain = problem.sent_bits * problem.noise_w_per_hz * LN2
    y = largest_efficiency(energy_limit_j * problem.channel_gain / floor_times_gain)
    product = problem.bandwidth_hz * upload_time_s * y
    return np.divide(
        problem.sent_bits * LN2, product, out=np.full_like(product, np.inf), where=able & (y > 0)
    )
