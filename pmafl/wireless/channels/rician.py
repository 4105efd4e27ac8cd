r"""Rician fading: a direct path of fixed strength and many scattered ones, correlated from round to round.

With K the power of the direct path over that of the scattered ones, and g a complex normal of mean power 1,

.. math:: h = \bar h \, \Bigl| \sqrt{\tfrac{K}{K+1}} + \sqrt{\tfrac{1}{K+1}} \, g \Bigr|^2, \qquad
          g_{t+1} = \rho \, g_t + \sqrt{1 - \rho^2} \, w_t .
"""

import numpy as np

from pmafl.errors import InputError
from pmafl.wireless.channels.base import Channel, Site, State, middles
from pmafl.wireless.problem import Array


def rician(site: Site, k_factor_db: float = 6.0, correlation: float = 0.0) -> Channel:
    """The model; a very small K factor gives the exponential law, correlation 0 independent rounds."""
    if not -100 <= k_factor_db <= 100:
        raise InputError(f"cell.options.k_factor_db = {k_factor_db}: must be from -100 to 100 decibels")
    check_correlation(correlation)
    k_factor = 10.0 ** (k_factor_db / 10.0)
    direct, scattered = np.sqrt(k_factor / (k_factor + 1)), np.sqrt(1 / (k_factor + 1))

    def start(rng: np.random.Generator) -> State:
        return {"real": _normal(rng, site.devices), "imaginary": _normal(rng, site.devices)}

    def gains(state: State, round_index: int, rng: np.random.Generator) -> tuple[Array, State]:
        fresh = np.sqrt(1 - correlation**2)
        state = {
            name: correlation * part + fresh * _normal(rng, site.devices) for name, part in state.items()
        }
        factor = (direct + scattered * state["real"]) ** 2 + (scattered * state["imaginary"]) ** 2
        return site.path_gain * factor, state

    def law(count: int) -> Array:
        from scipy.stats import ncx2  # slow to import

        levels: Array = ncx2.ppf(middles(count), 2, 2 * k_factor) / (2 * (k_factor + 1))
        return levels

    return Channel(site.path_gain, gains, law, start)


def check_correlation(correlation: float) -> None:
    if not 0 <= correlation < 1:
        raise InputError(f"cell.options.correlation = {correlation}: must be from 0 to below 1")


def _normal(rng: np.random.Generator, devices: int) -> Array:
    """One of the two parts of a complex normal of mean power 1."""
    part: Array = rng.standard_normal(devices) * np.sqrt(0.5)
    return part
