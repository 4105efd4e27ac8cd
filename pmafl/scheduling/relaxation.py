r"""The long run, taken apart by prices: of a joule of each device and of the band of each round, in samples.

The long-run problem: schedule as many samples as possible, with each device's energy over all rounds within
its whole budget, and each round's shares within the band. At prices mu and lambda each device decides for
itself, round by round, and takes part where its samples D are worth more than its energy E and its share
theta cost. By weak duality no schedule reaches more than all of these gains and the priced limits together,

.. math:: \sum_{t,k} \max\bigl(0,\; D_k - \min_\theta (\mu_k E_{tk} + \lambda_t \theta)\bigr)
          + \sum_t \lambda_t + \sum_k \mu_k T \bar E_k,

whatever the prices are. This is convex in the prices. With the kink of max(0, .) rounded off, a quasi-Newton
method finds the lowest value in tens of steps, and goes on from there with less and less rounding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from pmafl.allocation import at_price, frontiers, point, without_upload
from pmafl.wireless import Array, RoundProblem

SMALLEST = 1e-9  # price in its unit: their logarithms must exist
STEPS = 300  # of the quasi-Newton method, for each width
CASE_WIDTH = 10.0  # a case is a sum over rounds, so its kink is rounded more widely


@dataclass(frozen=True, eq=False)
class Case:
    """What is known about the number of rounds a device takes part in.

    Attributes:
        sign: -1 for at most that many, 1 for at least that many, 0 for any number.
        turns: how many, one entry per device.
    """

    sign: int
    turns: Array


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices in samples, none below 0.

    Attributes:
        energy: of a joule, shape (cases, devices).
        turn: of taking part (at most) or not taking part (at least), shape (cases, devices).
        band: of the band, one entry per round.
    """

    energy: Array
    turn: Array
    band: Array

    def flat(self) -> Array:
        return np.concatenate([self.energy.ravel(), self.turn.ravel(), self.band])

    def filled(self, flat: Array) -> "Prices":
        """Prices of these shapes from a flat array."""
        energy, turn, band = np.split(flat, [self.energy.size, 2 * self.energy.size])
        return Prices(energy.reshape(self.energy.shape), turn.reshape(self.turn.shape), band)


class Relaxation:
    """The rounds of a run, ready to be priced.

    Every device is in one of several cases, and nobody knows in which: the bound takes the worst of them.
    """

    def __init__(
        self, problem: RoundProblem, gain: Array, budget_j: Array, cases: Sequence[Case] = ()
    ) -> None:
        """Takes the cell and the devices from `problem`, gains (rounds, devices), budgets of a round."""
        rounds, devices = gain.shape
        cases = cases or [Case(0, np.zeros(devices))]
        self.shape = (len(cases), rounds, devices)
        self.samples, self.budget_j = problem.samples, budget_j * rounds
        self.sign = np.array([[case.sign] for case in cases])
        self.turns = np.stack([case.turns for case in cases])
        every_round = replace(
            problem,
            samples=np.tile(problem.samples, rounds),
            cycles_per_sample=np.tile(problem.cycles_per_sample, rounds),
            max_frequency_hz=np.tile(problem.max_frequency_hz, rounds),
            max_power_w=np.tile(problem.max_power_w, rounds),
            channel_gain=gain.ravel(),
            queue_j=np.zeros(gain.size),
            upload_bits=np.tile(problem.upload_bits, rounds),
            circuit_power_w=np.tile(problem.circuit_power_w, rounds),
            receive_energy_j=np.tile(problem.receive_energy_j, rounds),
            download_time_s=np.tile(problem.download_time_s, rounds),
            available=np.array(True),
            budget_j=np.array(np.nan),
            rounds_since=np.array(np.inf),
            last_loss=np.array(np.nan),
            energy_cap_j=np.tile(self.budget_j, rounds),  # not even a single round may cost more
        )
        self.frontier = frontiers(every_round).take(np.tile(np.arange(gain.size), len(cases)))
        self.able = (self.frontier.min_share <= 1).reshape(self.shape)
        self._log_y = (self.frontier.log_start + self.frontier.log_end) / 2

    def typical_prices(self) -> Prices:
        """Prices of the right order of magnitude: the units that all others are measured in."""
        cases, rounds, devices = self.shape
        middle_j = self._at(self._log_y)[0].mean(axis=1)
        energy = self.samples / np.maximum(middle_j, self.budget_j / rounds)
        turn = np.broadcast_to(self.samples, (cases, devices))
        return Prices(energy, turn, np.full(rounds, 10 * self.samples.mean()))

    def bound(self, prices: Prices) -> float:
        """Samples that no schedule of these rounds can exceed."""
        gain, _, _ = self._respond(prices)
        value = np.maximum(gain, 0).sum(axis=1) + self._priced_limits(prices)
        return float(value.max(axis=0).sum() + prices.band.sum())

    def turns_taken(self, prices: Prices, width: float) -> Array:
        """In how many rounds each device takes part at these prices, with the kink rounded off."""
        gain, _, _ = self._respond(prices)
        turns: Array = expit(gain / (width * self.samples.mean())).sum(axis=1)
        return turns

    def tighten(self, prices: Prices, widths: Iterable[float]) -> Prices:
        """Prices near the lowest bound, from some prices on.

        Args:
            prices: where to start.
            widths: how much the kink is rounded off, as parts of a device's samples, one after another.
        """
        unit = self.typical_prices().flat()
        scale = self.samples.sum()
        flat = np.maximum(prices.flat() / unit, SMALLEST)

        def rounded(flat: Array, width: float) -> tuple[float, Array]:
            value, slope = self._rounded(prices.filled(flat * unit), width)
            return value / scale, slope * unit / scale

        for width in widths:
            found = minimize(
                rounded,
                flat,
                args=(width * self.samples.mean(),),
                jac=True,
                method="L-BFGS-B",
                bounds=[(SMALLEST, None)] * flat.size,
                options={"maxiter": STEPS, "maxcor": 20, "ftol": 1e-7, "gtol": 1e-8},
            )
            flat = found.x
        return prices.filled(flat * unit)

    def _rounded(self, prices: Prices, width: float) -> tuple[float, Array]:
        """The bound with its kinks rounded off, which is never below it, and its slope."""
        gain, energy_j, share = self._respond(prices)
        limits = self._priced_limits(prices)
        value = width * np.logaddexp(0, gain / width).sum(axis=1) + limits
        part = expit(gain / width)  # of a round in which the device takes part
        case_width = CASE_WIDTH * width
        case_part = softmax(value / case_width, axis=0)
        total = case_width * logsumexp(value / case_width, axis=0).sum() + prices.band.sum()
        energy = case_part * (self.budget_j - (part * energy_j).sum(axis=1))
        turn = case_part * self.sign * (part.sum(axis=1) - self.turns)
        used = (case_part[:, None, :] * part * share).sum(axis=(0, 2))
        return float(total), Prices(energy, turn, 1 - used).flat()

    def _respond(self, prices: Prices) -> tuple[Array, Array, Array]:
        """Gain (below 0 where taking part does not pay), energy and share of every device in every round."""
        energy_price = prices.energy[:, None, :]
        band_price = prices.band[:, None]
        if not self.frontier.silent:
            log_ratio = np.broadcast_to(np.log(band_price / energy_price), self.shape)
            self._log_y = at_price(self.frontier, log_ratio.ravel(), self._log_y)
        energy_j, share = self._at(self._log_y)
        worth = self.samples + (self.sign * prices.turn)[:, None, :]
        gain = worth - energy_price * energy_j - band_price * share
        return np.where(self.able, gain, -np.inf), energy_j, share

    def _at(self, log_y: Array) -> tuple[Array, Array]:
        if self.frontier.silent:  # nothing to upload
            return without_upload(self.frontier)[1].reshape(self.shape), np.zeros(self.shape)
        at = point(self.frontier, log_y)
        return at.energy_j.reshape(self.shape), at.share.reshape(self.shape)

    def _priced_limits(self, prices: Prices) -> Array:
        limits: Array = prices.energy * self.budget_j - self.sign * prices.turn * self.turns
        return limits
