r"""What a device can do with a share of the band: its energy frontier, the least energy against share.

With the deadline divided into a fraction s for the upload and u = 1 - s for computing, and the upload at
y = x*ln(2) nats per second and hertz, a device is described by three energies and one fraction:

.. math:: E = \frac{e_L}{u^2} + e_R \frac{e^y - 1}{y}, \qquad \theta = \frac{c}{s y}, \qquad
          e_R \frac{e^y - 1}{y} \le e_P s, \qquad u \ge u_{\min}

where e_L is the energy of computing for the whole deadline, e_R the floor of the upload energy, e_P =
p_max*T_max, and c = Q*ln(2)/(B*T_max). The best s for a share rises with y and needs no search: it is the
largest of the point where both marginal powers agree (a cubic in u) and the power limit, cut at the clock
limit. So y alone runs through the whole frontier, from plenty of band (small y) to the smallest share
possible (its end), and share, energy and the worth of band are closed forms of it.

Circuits that draw power while the device is awake add e_C (s + u), with e_C what they draw in the whole
deadline. Then a device need not use all of it: it sleeps again where the marginal power of computing, and
that of sending, has come down to the circuits',

.. math:: u = \sqrt[3]{2 e_L / e_C}, \qquad s = \frac{e_R}{e_C} \frac{1 + e^y (y - 1)}{y},

each within its limit. Where both together exceed the deadline, e_C (s + u) is a constant and the frontier is
the one above. What receiving costs is a constant too. Fractions are of the time that receiving leaves.
"""

from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pmafl.allocation.roots import NOT_ZERO, SMALL_STEP, SMALL_VALUE, rising_root
from pmafl.wireless import (
    LN2,
    Array,
    Index,
    RoundProblem,
    compute_energy,
    energy_ratio,
    exp_remainder,
    fastest_time,
    largest_efficiency,
)

# More than any radio will do; it keeps e^(2y) finite.
LARGEST_EFFICIENCY = 300.0
# Even with nothing to compute; it keeps digits in 1 - s.
LEAST_COMPUTE = 1e-9
# Part of an energy cap that is left unused: where the energy rises steeply, rounding must not lead beyond it.
CAP_MARGIN = 1e-10
ROUNDING = 1e-12  # by which an energy at its cap may seem to exceed it
BLOCK = 16384  # devices at a time: what fits a processor's cache


class Point(NamedTuple):
    """One point on each device's frontier; slopes are logarithmic, with respect to log(y)."""

    upload_fraction: Array
    compute_fraction: Array
    share: Array
    energy_j: Array
    log_price: Array  # log of the energy saved per share of band, -dE/dtheta
    price_slope: Array
    share_slope: Array


@dataclass(frozen=True, eq=False)
class Frontier:
    """The frontiers of several devices, one entry each; see the module for the symbols.

    Where a device cannot take part at all, `min_share` is infinite and the rest are placeholders.
    """

    silent: bool  # nothing is uploaded: nobody needs band, and c is 0
    circuits: bool  # somebody's draw power
    unit_share: Array  # c
    compute_j: Array  # e_L
    upload_j: Array  # e_R
    power_j: Array  # e_P
    least_compute: Array  # u_min
    circuit_j: Array  # e_C
    standing_j: Array  # of receiving
    energy_cap_j: Array
    log_start: Array  # log(y) where the share is 1
    log_end: Array  # log(y) where the share is smallest
    end_log_price: Array
    min_share: Array

    def take(self, device: Index | slice) -> "Frontier":
        """The frontiers of some of the devices, repeated as often as asked for."""
        return Frontier(
            self.silent,
            self.circuits,
            self.unit_share[device],
            self.compute_j[device],
            self.upload_j[device],
            self.power_j[device],
            self.least_compute[device],
            self.circuit_j[device],
            self.standing_j[device],
            self.energy_cap_j[device],
            self.log_start[device],
            self.log_end[device],
            self.end_log_price[device],
            self.min_share[device],
        )


_KNOWN: WeakKeyDictionary[RoundProblem, Frontier] = WeakKeyDictionary()


def point(frontier: Frontier, log_y: Array) -> Point:
    """Share, energy, division of time and worth of band at y on each frontier."""
    if log_y.size > BLOCK:
        parts = [point(frontier.take(block), log_y[block]) for block in blocks(log_y.size)]
        return Point(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    division = _divide(frontier, log_y)
    y, ratio, upload, compute, log_price, price_slope, upload_slope = division
    energy_j = frontier.compute_j / (compute * compute) + frontier.upload_j * ratio
    return Point(
        upload_fraction=upload,
        compute_fraction=compute,
        share=frontier.unit_share / (upload * y),
        energy_j=energy_j + (awake(frontier, compute, upload) if frontier.circuits else frontier.standing_j),
        log_price=log_price,
        price_slope=price_slope,
        share_slope=-1.0 - upload_slope,
    )


class _Division(NamedTuple):
    """What a point on each frontier follows from."""

    y: Array
    ratio: Array  # of the upload's energy to its floor
    upload_fraction: Array
    compute_fraction: Array
    log_price: Array
    price_slope: Array
    upload_slope: Array


def _divide(frontier: Frontier, log_y: Array) -> _Division:
    r"""How time is divided at y on each frontier, and what band is worth there.

    Free, the cubic :math:`v u^3 + u = 1` with :math:`v = e_R g(y) / (2 e_L y)` and
    :math:`g = 1 + e^y (y - 1)` divides the time, and a share saves :math:`e_R s g / c`. At the power limit it
    saves :math:`(2 e_L / u^3 + e_P) s^2 g e^{-y} / c`, for then more band also gives time to computing. Where
    the device sleeps before the deadline, time is worth e_C instead of :math:`2 e_L / u^3`.

    Limits are looked at only where somebody is at one: among few devices every operation counts.
    """
    y = np.exp(log_y)
    growth = np.expm1(y)
    ratio = growth / y
    remainder = exp_remainder(y)
    power = growth + 1.0
    marginal = power * remainder

    time_balance = frontier.upload_j / (2.0 * frontier.compute_j) * marginal / y
    root = np.sqrt(3.0 * time_balance)
    compute = 2.0 * np.sinh(np.arcsinh(1.5 * root) / 3.0) / root
    upload = time_balance * compute * compute * compute  # numpy's **3 is slow
    least_upload = ratio * (frontier.upload_j / frontier.power_j)
    curvature = y * y * power / marginal

    capped = (least_upload > upload) & (compute > frontier.least_compute)
    some_capped = np.count_nonzero(capped) > 0  # the fastest way to ask
    if some_capped:
        compute = np.where(capped, 1.0 - least_upload, compute)
        upload = np.where(capped, least_upload, upload)
    fastest = compute <= frontier.least_compute
    some_fastest = np.count_nonzero(fastest) > 0
    if some_fastest:
        compute = np.maximum(compute, frontier.least_compute)
        upload = np.where(fastest, 1.0 - compute, upload)
    upload_slope = (curvature - 1.0) * compute / (1.0 + 2.0 * upload)
    if some_fastest:
        upload_slope = np.where(fastest, 0.0, upload_slope)
    if some_capped:
        upload_slope = np.where(capped, marginal / growth, upload_slope)

    early = None  # whether the device sleeps before the deadline
    if frontier.circuits:
        early_compute = _early_compute(frontier)
        with np.errstate(divide="ignore", over="ignore"):
            cheap_upload = frontier.upload_j * (marginal / y) / frontier.circuit_j
        early_upload = np.maximum(cheap_upload, least_upload)
        early = early_compute + early_upload <= 1
        hurried = early & (least_upload > cheap_upload)
        capped = np.where(early, hurried, capped)
        some_capped = np.count_nonzero(capped) > 0
        compute, upload = np.where(early, early_compute, compute), np.where(early, early_upload, upload)
        upload_slope = np.where(early, np.where(hurried, marginal / growth, curvature - 1), upload_slope)
    price = frontier.upload_j * marginal
    price_slope = curvature + upload_slope
    if some_capped:
        compute_power = 2.0 * frontier.compute_j / (compute * compute * compute)
        if early is not None:
            compute_power = np.where(early, frontier.circuit_j, compute_power)
        capped_power = compute_power + frontier.power_j
        price = np.where(capped, capped_power * remainder * upload, price)
        capped_slope = 3.0 * compute_power * upload / (compute * capped_power) + 2.0
        if early is not None:
            capped_slope = np.where(early, 2.0, capped_slope)
        price_slope = np.where(capped, capped_slope * upload_slope + y * growth / marginal, price_slope)
    log_price = np.log(price * upload / frontier.unit_share)
    return _Division(y, ratio, upload, compute, log_price, price_slope, upload_slope)


def _early_compute(frontier: Frontier) -> Array:
    """Time of computing from which on sleeping is better; infinite without circuits."""
    with np.errstate(divide="ignore", over="ignore"):
        early = np.cbrt(2 * frontier.compute_j / frontier.circuit_j)
    return np.maximum(early, frontier.least_compute)


def awake(frontier: Frontier, compute: Array, upload: Array) -> Array:
    """Energy in joules of receiving, and of the circuits for these fractions of the time."""
    return frontier.circuit_j * (compute + upload) + frontier.standing_j


def without_upload(frontier: Frontier) -> tuple[Array, Array]:
    """Where nobody uploads: the fraction of the time that each device computes, and its energy."""
    if not frontier.circuits:
        return np.ones_like(frontier.compute_j), frontier.compute_j + frontier.standing_j
    compute = np.minimum(_early_compute(frontier), 1.0)
    nothing = np.zeros_like(compute)
    return compute, frontier.compute_j / compute**2 + awake(frontier, compute, nothing)


def energy(frontier: Frontier, share: Array, compute: Array, upload: Array) -> Array:
    """Energy in joules of any division of time, on the frontier or not."""
    compute_j = frontier.compute_j / compute**2
    if frontier.silent:
        return compute_j + awake(frontier, compute, np.zeros_like(compute))
    upload_j = frontier.upload_j * energy_ratio(frontier.unit_share / (share * upload))
    return compute_j + upload_j + awake(frontier, compute, upload)


def at_price(
    frontier: Frontier,
    log_price: Array,
    guess: Array,
    small_step: float = SMALL_STEP,
    small_value: float = SMALL_VALUE,
) -> Array:
    """log(y) where band is worth the price to each device: where it minimises E + price*share.

    The last two say when the search may end, as in `rising_root`.
    """
    if guess.size > BLOCK:
        parts = (
            at_price(frontier.take(b), log_price[b], guess[b], small_step, small_value)
            for b in blocks(guess.size)
        )
        return np.concatenate(list(parts))

    def residual(log_y: Array) -> tuple[Array, Array]:
        at = _divide(frontier, log_y)
        return at.log_price - log_price, at.price_slope

    return rising_root(residual, frontier.log_start, frontier.log_end, guess, small_step, small_value)


def frontiers(problem: RoundProblem) -> Frontier:
    """The frontier of every device of a problem.

    Where nothing is uploaded there is none: whoever computes in time needs no band. They are remembered for
    as long as the problem lives, for whoever asks after the policy: nobody changes them.
    """
    if (known := _KNOWN.get(problem)) is not None:
        return known
    frontier = open_frontiers(problem)
    if not frontier.silent:
        for block in blocks(problem.devices):
            set_ends(frontier.take(block))  # a slice takes views: the ends are written into the arrays above
    _KNOWN[problem] = frontier
    return frontier


def open_frontiers(problem: RoundProblem) -> Frontier:
    """The same without their ends, most of the work: they reach beyond the limits of band, power and energy.

    `min_share` is 0 but where a device can never take part.
    """
    devices = problem.devices
    receives = problem.work_time_s > 0
    time_s = np.where(receives, problem.work_time_s, problem.deadline_s)
    least_compute = fastest_time(problem) / time_s
    power_j = problem.max_power_w * time_s
    floor_j = problem.sent_bits * problem.noise_w_per_hz * LN2
    reaches = power_j * (1 - least_compute) * problem.channel_gain >= floor_j
    able = problem.available & receives & (least_compute <= 1) & reaches
    work_cycles = np.where(able, problem.work_cycles, 0.0)
    compute_j = compute_energy(time_s, work_cycles, problem.energy_coefficient)
    upload_j = np.divide(floor_j, problem.channel_gain, out=power_j / 2, where=able & (floor_j > 0))
    least_compute = np.where(able, np.maximum(least_compute, LEAST_COMPUTE), 0.25)
    unit_share = problem.sent_bits * LN2 / (problem.bandwidth_hz * time_s)
    frontier = Frontier(
        silent=problem.silent,
        circuits=bool(problem.circuit_power_w.any()),
        unit_share=unit_share,
        compute_j=np.maximum(compute_j, 1e-60 * upload_j),  # without work all the time goes to the upload
        upload_j=upload_j,
        power_j=power_j,
        least_compute=least_compute,
        circuit_j=problem.circuit_power_w * time_s,
        standing_j=problem.standing_energy_j,
        energy_cap_j=problem.energy_cap_j,
        log_start=np.zeros(devices) if problem.silent else np.log(unit_share),
        log_end=np.full(devices, np.log(LARGEST_EFFICIENCY)),
        end_log_price=np.full(devices, np.inf),
        min_share=np.where(able & (compute_j <= problem.energy_cap_j), 0.0, np.inf),
    )
    if frontier.silent and (frontier.circuits or frontier.standing_j.any()):  # no ends to find
        too_much = without_upload(frontier)[1] > problem.energy_cap_j
        frontier.min_share[too_much] = np.inf
    return frontier


def blocks(devices: int) -> list[slice]:
    """Slices of all devices, a block each."""
    return [slice(start, min(start + BLOCK, devices)) for start in range(0, devices, BLOCK)]


def power_end(frontier: Frontier) -> Array:
    """log(y) at full power after computing at full clock: no frontier reaches further."""
    largest = largest_efficiency(frontier.power_j * (1 - frontier.least_compute) / frontier.upload_j)
    return np.log(np.clip(largest, 1e-30, LARGEST_EFFICIENCY))


def set_ends(frontier: Frontier) -> None:
    """Fills in where each frontier starts and ends: at all of the band, and at a limit of power or energy."""
    frontier.log_end[:] = power_end(frontier)
    end = point(frontier, frontier.log_end)
    frontier.log_start[:] = _start(frontier, end.share)
    _end_at(frontier, end)


def limit_energy(frontier: Frontier) -> None:
    """Moves ends back to where the energy meets its cap, and fills in what follows from the ends."""
    _end_at(frontier, point(frontier, frontier.log_end))


def _end_at(frontier: Frontier, end: Point) -> None:
    """Ends the frontiers at these points, or before where energy is limited."""
    over = np.flatnonzero(end.energy_j > frontier.energy_cap_j)
    if over.size:
        frontier.log_end[over] = _end_within_cap(frontier.take(over))
        end = point(frontier, frontier.log_end)
    frontier.end_log_price[:] = end.log_price
    within = end.energy_j <= frontier.energy_cap_j * (1 + ROUNDING)
    frontier.min_share[:] = np.where(within, np.maximum(end.share, frontier.min_share), np.inf)


def _start(frontier: Frontier, end_share: Array) -> Array:
    """Where the share is 1, or the end if it is larger there."""

    def residual(log_y: Array) -> tuple[Array, Array]:
        at = _divide(frontier, log_y)
        return -np.log(frontier.unit_share / (at.upload_fraction * at.y)), 1.0 + at.upload_slope

    log_unit = np.minimum(np.log(frontier.unit_share), frontier.log_end)
    guess = frontier.log_end + np.log(end_share) / 5
    return rising_root(residual, log_unit, frontier.log_end, guess)


def _end_within_cap(frontier: Frontier) -> Array:
    """Where the energy, which rises all along the frontier, meets its cap."""
    log_cap = np.log(np.maximum(frontier.energy_cap_j, NOT_ZERO)) - CAP_MARGIN

    def residual(log_y: Array) -> tuple[Array, Array]:
        at = point(frontier, log_y)
        slope = np.exp(at.log_price) * at.share * -at.share_slope / at.energy_j
        return np.log(at.energy_j) - log_cap, slope

    return rising_root(residual, frontier.log_start, frontier.log_end, frontier.log_end)
