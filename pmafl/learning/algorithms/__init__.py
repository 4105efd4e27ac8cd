"""The federated algorithms: one a file, and a table of their names.

An algorithm says which part of the model is shared, how many iterations a device is charged for, and how a
device trains; the rest (`rounds.py`) is the same for all. A new one is a function from the learning settings
to an `Algorithm`, registered by `register` or named in the settings as ``package.module:function``.
"""

from typing import Any, get_args

from pmafl.errors import InputError
from pmafl.learning.algorithms.base import Algorithm, Constructor, Shares
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.learning.algorithms.fedprox import fedprox
from pmafl.learning.algorithms.fedrep import fedrep
from pmafl.learning.algorithms.local import local
from pmafl.learning.algorithms.pma import pma
from pmafl.plugins import blaming, load_object
from pmafl.settings import LearningSettings

__all__ = ["ALGORITHMS", "Algorithm", "Constructor", "find_algorithm", "register"]

ALGORITHMS: dict[str, Constructor] = {
    "pma": pma,
    "fedavg": fedavg,
    "fedprox": fedprox,
    "fedrep": fedrep,
    "local": local,
}


def register(name: str, constructor: Constructor) -> None:
    """Make an algorithm available under a name of its own."""
    if name in ALGORITHMS:
        raise InputError(f"an algorithm is already called {name!r}; choose another name")
    ALGORITHMS[name] = constructor


def find_algorithm(learning: LearningSettings) -> Algorithm:
    """The algorithm that the settings name, with its parameters from the settings."""
    name = learning.algorithm
    if name not in ALGORITHMS and ":" not in name:
        known = ", ".join(ALGORITHMS)
        raise InputError(f"learning.algorithm = {name!r}: must be {known}, or package.module:name")
    constructor = ALGORITHMS.get(name) or load_object(name, "learning.algorithm")
    with blaming(f"learning.algorithm = {name!r}"):
        return _checked(constructor(learning))


def _checked(algorithm: Any) -> Algorithm:
    if not isinstance(algorithm, Algorithm):
        raise InputError(f"must return an Algorithm, but returned {type(algorithm).__name__}")
    if algorithm.shares not in (shares := get_args(Shares)):
        raise InputError(f"shares is {algorithm.shares!r:.40}; it must be {', '.join(shares)}")
    iterations = algorithm.charged_iterations
    if not isinstance(iterations, int) or iterations < 1:
        raise InputError(f"charged_iterations is {iterations!r:.40}; it must be a whole number from 1")
    if not callable(algorithm.local_update):
        raise InputError(f"local_update is a {type(algorithm.local_update).__name__}; it must be a function")
    return algorithm
