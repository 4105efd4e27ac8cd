"""How a device divides the deadline when its share of the band is given (the paper's P4 and Lemma 3)."""

import numpy as np

from pmafl.allocation.bandwidth import lambert_efficiency
from pmafl.allocation.frontier import Frontier
from pmafl.allocation.roots import NOT_ZERO, rising_root
from pmafl.wireless import Array, exp_remainder


def time_division(frontier: Frontier, share: Array) -> tuple[Array, Array]:
    r"""The best division of the deadline for a given share: fractions for computing and for the upload.

    Lemma 3: the point where the marginal powers of computing and sending agree,

    .. math:: -\frac{\partial E^L}{\partial T^L} = -\frac{\partial E^U}{\partial T^U},

    unless the clock limit comes first (then all the time that f_max leaves) or the power limit (then as
    long as p_max takes). Where the limits exclude each other the clock limit wins, as in the lemma: the
    device would need more than p_max. With circuits that draw power while the device is awake, each of the
    two takes no longer than until its marginal power has come down to theirs.
    """
    unit = frontier.unit_share / share
    shortest_upload = unit / np.log1p(frontier.power_j / frontier.upload_j * unit)
    high = np.log1p(-frontier.least_compute) - np.log(frontier.least_compute)
    with np.errstate(divide="ignore"):
        low = np.log(shortest_upload) - np.log1p(-np.minimum(shortest_upload, 1.0))
    log_energies = np.log(frontier.upload_j / (2 * frontier.compute_j))

    def residual(log_odds: Array) -> tuple[Array, Array]:
        odds = np.exp(log_odds)
        upload = odds / (1 + odds)
        y = unit / upload
        remainder = exp_remainder(y)
        computing = log_odds + 2 * np.log1p(odds)  # log of s/u^3
        sending = y + np.log(remainder / y) + log_energies
        slope = 1 + 2 * upload + (y * y / remainder - 1) * (1 - upload)
        return computing - sending, slope

    log_odds = rising_root(residual, np.minimum(low, high), high, high)
    compute, upload = 1 / (1 + np.exp(log_odds)), 1 / (1 + np.exp(-log_odds))
    if not frontier.circuits:
        return compute, upload
    circuit_j = np.maximum(frontier.circuit_j, NOT_ZERO)
    early_compute = np.maximum(np.cbrt(2 * frontier.compute_j / circuit_j), frontier.least_compute)
    efficiency = np.exp(lambert_efficiency(np.log(circuit_j) + np.log(unit / frontier.upload_j)))
    early_upload = np.maximum(unit / efficiency, shortest_upload)
    early = early_compute + early_upload <= 1
    return np.where(early, early_compute, compute), np.where(early, early_upload, upload)
