"""Time and energy of local training (the paper's Section II-C), as arrays over devices.

A device runs its CPU as slowly as its time allows, because energy grows with the square of the frequency.
"""

import numpy as np

from pmafl.wireless.problem import Array, RoundProblem


def compute_energy(compute_time_s: Array, work_cycles: Array, energy_coefficient: float) -> Array:
    r"""Energy in joules to run w cycles within a time.

    .. math:: E^L = \kappa \, w \, f^2 = \frac{\kappa w^3}{(T^L)^2}, \qquad f = w / T^L

    No work costs nothing, in no time.

    >>> float(compute_energy(np.array(2.0), np.array(1e9), 5e-27))
    1.25
    """
    return energy_coefficient * work_cycles * frequency(compute_time_s, work_cycles) ** 2


def frequency(compute_time_s: Array, work_cycles: Array) -> Array:
    """Clock in Hz that runs the cycles in exactly this time, w/TL (0 where there is no work)."""
    return np.divide(work_cycles, compute_time_s, out=np.zeros_like(work_cycles), where=work_cycles > 0)


def fastest_time(problem: RoundProblem) -> Array:
    """Seconds each device computes at its highest clock, w/f_max: the least it can take."""
    return problem.work_cycles / problem.max_frequency_hz
