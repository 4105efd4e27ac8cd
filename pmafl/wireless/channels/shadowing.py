r"""Log-normal shadowing by walls and bodies, which moves slowly, under Rayleigh fading, which does not.

With z a normal variable for each device, of correlation rho from round to round (Gudmundson's model: M.
Gudmundson, "Correlation model for shadow fading in mobile radio systems", Electronics Letters 1991), and s
the deviation in nepers of power,

.. math:: h = \bar h \, e^{s z - s^2/2} \, F, \qquad F \sim \mathrm{Exp}(1), \qquad
          z_{t+1} = \rho \, z_t + \sqrt{1 - \rho^2} \, w_t .
"""

import numpy as np

from pmafl.errors import InputError
from pmafl.wireless.channels.base import Channel, Site, State, middles
from pmafl.wireless.channels.rician import check_correlation
from pmafl.wireless.problem import Array

NODES = 64  # of the quadrature over the shadow's law


def shadowing(
    site: Site, deviation_db: float = 6.0, correlation: float = 0.9, fading: bool = True
) -> Channel:
    """The model; a deviation of 0 gives the exponential law, or without `fading` the path gain alone."""
    if not 0 <= deviation_db <= 40:
        raise InputError(f"cell.options.deviation_db = {deviation_db}: must be from 0 to 40 decibels")
    check_correlation(correlation)
    deviation = deviation_db * np.log(10) / 10

    def factor(shadow: Array) -> Array:
        """Power gain of a shadow, of mean 1."""
        gain: Array = np.exp(deviation * shadow - deviation**2 / 2)
        return gain

    def start(rng: np.random.Generator) -> State:
        return {"shadow": rng.standard_normal(site.devices)}

    def gains(state: State, round_index: int, rng: np.random.Generator) -> tuple[Array, State]:
        fresh = rng.standard_normal(site.devices)
        shadow = correlation * state["shadow"] + np.sqrt(1 - correlation**2) * fresh
        faded = rng.standard_exponential(site.devices) if fading else np.ones(site.devices)
        return site.path_gain * factor(shadow) * faded, {"shadow": shadow}

    def law(count: int) -> Array:
        from scipy.special import ndtri

        if not fading:
            return factor(ndtri(middles(count)))
        shadow, density = np.polynomial.hermite_e.hermegauss(NODES)
        return _mixture(factor(shadow), density / density.sum(), middles(count))

    return Channel(site.path_gain, gains, law, start)


def _mixture(mean: Array, likely: Array, level: Array) -> Array:
    """Quantiles of an exponential variable whose mean is one of these, each as likely as said."""
    from scipy.optimize import brentq

    def miss(value: float, wanted: float) -> float:
        return float(likely @ -np.expm1(-value / mean) - wanted)

    highest = -np.log1p(-level.max()) * mean.max()  # at least this many are below it under every mean
    return np.array([brentq(miss, 0.0, highest, args=(wanted,)) for wanted in level])
