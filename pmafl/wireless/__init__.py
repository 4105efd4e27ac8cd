"""The wireless cell: where devices stand, what their channels are, and what time and energy a round costs."""

from pmafl.wireless import channels
from pmafl.wireless.cell import distances, noise_w_per_hz, path_gain, place
from pmafl.wireless.cpu import compute_energy, fastest_time, frequency
from pmafl.wireless.fleet import Fleet, build_fleet
from pmafl.wireless.problem import (
    CELL_FIELDS,
    COMMON_FIELDS,
    LARGEST,
    SMALLEST,
    Array,
    Index,
    Mask,
    RoundProblem,
    limits,
    usable_gain,
    wrong_values,
)
from pmafl.wireless.radio import (
    LN2,
    energy_ratio,
    exp_remainder,
    largest_efficiency,
    min_share,
    price_ratio,
    spectral_efficiency,
    upload_energy,
)

__all__ = [
    "CELL_FIELDS",
    "COMMON_FIELDS",
    "LARGEST",
    "LN2",
    "SMALLEST",
    "Array",
    "Fleet",
    "Index",
    "Mask",
    "RoundProblem",
    "build_fleet",
    "channels",
    "compute_energy",
    "distances",
    "energy_ratio",
    "exp_remainder",
    "fastest_time",
    "frequency",
    "largest_efficiency",
    "limits",
    "min_share",
    "noise_w_per_hz",
    "path_gain",
    "place",
    "price_ratio",
    "spectral_efficiency",
    "upload_energy",
    "usable_gain",
    "wrong_values",
]
