"""An independent solver of P6, straight from the paper's formulas: nested searches, nothing from pmafl.

A bisection on the price of band, inside it a golden-section search for each device's share, inside that a
bisection for its computing time. Arrays run over devices of any number of problems at once.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Devices:
    """Every quantity per device, the cell's repeated; `problem` says to which problem a device belongs."""

    problem: np.ndarray
    band_hz: np.ndarray
    noise: np.ndarray
    deadline_s: np.ndarray
    bits: np.ndarray
    kappa: np.ndarray
    work: np.ndarray
    max_hz: np.ndarray
    max_w: np.ndarray
    gain: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, problems):
        """The devices of several round problems, weighted by their queues."""
        parts = []
        for number, p in enumerate(problems):
            one = np.ones(p.devices)
            parts.append(
                [
                    number * one, p.bandwidth_hz * one, p.noise_w_per_hz * one, p.deadline_s * one,
                    p.upload_bits * one, p.energy_coefficient * one,
                    p.local_iterations * p.samples * p.cycles_per_sample,
                    p.max_frequency_hz, p.max_power_w, p.channel_gain, p.queue_j,
                ]
            )  # fmt: skip
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return cls(columns[0].astype(int), *columns[1:])

    def max_rate(self, share):
        width = share * self.band_hz
        return width * np.log1p(self.max_w * self.gain / (width * self.noise)) / np.log(2)

    def energy(self, share, compute_s):
        upload_s = self.deadline_s - compute_s
        width = share * self.band_hz
        growth = np.expm1(np.minimum(self.bits / (width * upload_s), 1000) * np.log(2))
        return self.kappa * self.work**3 / compute_s**2 + width * self.noise / self.gain * growth * upload_s

    def min_share(self):
        low, high = np.full(self.work.size, 1e-12), np.ones(self.work.size)
        needed = self.bits / (self.deadline_s - self.work / self.max_hz)
        for _ in range(70):
            middle = np.sqrt(low * high)
            enough = self.max_rate(middle) >= needed
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def best_time(self, share):
        """Lemma 3 by bisection on the sign of dE/dTL."""
        low = self.work / self.max_hz
        high = np.maximum(self.deadline_s - self.bits / self.max_rate(share), low)
        for _ in range(42):
            compute_s = (low + high) / 2
            x = self.bits / (share * self.band_hz * (self.deadline_s - compute_s)) * np.log(2)
            radio = share * self.band_hz * self.noise / self.gain * (1 + np.exp(x) * (x - 1))
            rising = radio > 2 * self.kappa * self.work**3 / compute_s**3
            low, high = np.where(rising, low, compute_s), np.where(rising, compute_s, high)
        return (low + high) / 2

    def cost(self, log_share, price):
        share = np.exp(log_share)
        return self.weight * self.energy(share, self.best_time(share)) + price * share

    def best_share(self, price):
        """Golden section on log(share): the cost is convex in the share."""
        ratio = (np.sqrt(5) - 1) / 2
        low, high = np.log(self.min_share()), np.zeros(self.work.size)
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        left_cost, right_cost = self.cost(left, price), self.cost(right, price)
        for _ in range(38):
            lower = left_cost <= right_cost
            low, high = np.where(lower, low, left), np.where(lower, right, high)
            probe = np.where(lower, high - ratio * (high - low), low + ratio * (high - low))
            probe_cost = self.cost(probe, price)
            left, right = np.where(lower, probe, right), np.where(lower, left, probe)
            left_cost, right_cost = (
                np.where(lower, probe_cost, right_cost),
                np.where(lower, left_cost, probe_cost),
            )
        log_share = (low + high) / 2
        return np.exp(log_share), self.cost(log_share, price)


def lower_bounds(devices, log_price):
    """For each problem, the dual function at a price: no allocation of its set can cost less."""
    price = np.exp(log_price)
    share, cost = devices.best_share(price[devices.problem])
    return np.bincount(devices.problem, cost) - price, np.bincount(devices.problem, share)


def optima(devices, log_low, log_high, steps=28):
    """The optimal costs of P6, by bisection on each problem's price (its dual function is concave)."""
    best = np.full(log_low.size, -np.inf)
    for _ in range(steps):
        middle = (log_low + log_high) / 2
        value, share = lower_bounds(devices, middle)
        best = np.maximum(best, value)
        log_low, log_high = np.where(share > 1, middle, log_low), np.where(share > 1, log_high, middle)
    return best
