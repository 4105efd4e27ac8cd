"""How the band is divided when every device's time is given (the paper's P5, Section IV-B).

At a price each share has a closed form with the Lambert W function; the price that fills the band is
found between two bounds. The limits on power and energy, which the paper's closed form leaves out, are
floors on the share.
"""

import numpy as np

from pmafl.allocation.frontier import LARGEST_EFFICIENCY, Frontier, awake
from pmafl.allocation.roots import LEAST_SLOPE, NOT_ZERO, rising_root
from pmafl.allocation.sets import Sets
from pmafl.wireless import Array, exp_remainder, largest_efficiency


def bandwidth(members: Frontier, sets: Sets, weight: Array, compute: Array, upload: Array) -> Array:
    """Shares that minimise each set's weighted upload energy; members of weight 0 get their smallest share.

    Args:
        members: one frontier per member of the sets.
        sets: feasible with these times: the smallest shares sum to at most 1.
        weight: weight of each member's energy.
        compute, upload: fractions of the deadline, one per member.
    """
    smallest = smallest_share(members, compute, upload)
    if members.silent:
        return smallest
    paying = weight > 0
    band = 1 - sets.sum(np.where(paying, 0.0, smallest))
    sets, members = sets.members(paying), members.take(np.flatnonzero(paying))
    full_share = members.unit_share / upload[paying]
    log_least = np.log(full_share)
    log_limit = np.maximum(log_least - np.log(smallest[paying]), log_least)
    log_cost = np.log(weight[paying] * members.upload_j / full_share)

    def efficiency(log_price: Array) -> Array:
        log_y: Array = np.minimum(lambert_efficiency(log_price[sets.owner] - log_cost), log_limit)
        return log_y

    def residual(log_price: Array) -> tuple[Array, Array]:
        log_y = efficiency(log_price)
        share = full_share / np.exp(log_y)
        total = np.maximum(sets.sum(share), NOT_ZERO)
        elasticity = np.where(log_y < log_limit, 1 / log_price_slope(log_y), 0.0)
        return np.log(band / total), np.maximum(sets.sum(share * elasticity) / total, LEAST_SLOPE)

    low = sets.largest(log_price_ratio(log_least) + log_cost)
    high = sets.largest(log_price_ratio(log_limit) + log_cost)
    log_price = rising_root(residual, low, high, high)
    result = smallest.copy()
    result[paying] = full_share / np.exp(efficiency(log_price))
    return result


def smallest_share(frontier: Frontier, compute: Array, upload: Array) -> Array:
    """The share below which a device would exceed its power or its energy cap; infinite where any would."""
    times = upload if not frontier.silent else np.zeros_like(upload)
    energy_left_j = frontier.energy_cap_j - frontier.compute_j / compute**2 - awake(frontier, compute, times)
    if frontier.silent:
        return np.where(energy_left_j >= 0, 0.0, np.inf)
    allowed_j = np.minimum(frontier.power_j * upload, energy_left_j)
    y = np.minimum(largest_efficiency(allowed_j / frontier.upload_j), LARGEST_EFFICIENCY)
    product = upload * y
    return np.divide(frontier.unit_share, product, out=np.full_like(product, np.inf), where=product > 0)


def lambert_efficiency(log_z: Array) -> Array:
    r"""log(y) where 1 + e^y*(y - 1) = z, that is :math:`y = W_0((z - 1)/e) + 1`, from log(z).

    Working on logarithms keeps what the textbook form loses: digits near z = 0 and range for large z.
    """
    small = 0.5 * (log_z + np.log(2))  # from z = y^2/2; for large z, y is nearly log(z)
    guess = np.where(log_z < 1, small, np.log(np.maximum(log_z, 1.0)))

    def residual(log_y: Array) -> tuple[Array, Array]:
        return log_price_ratio(log_y) - log_z, log_price_slope(log_y)

    return rising_root(residual, guess - 2, guess + 2, guess)


def log_price_ratio(log_y: Array) -> Array:
    """log(1 + e^y*(y - 1))."""
    y = np.exp(log_y)
    return y + np.log(exp_remainder(y))


def log_price_slope(log_y: Array) -> Array:
    """Slope of `log_price_ratio`, at least 2."""
    y = np.exp(log_y)
    return y * y / exp_remainder(y)
