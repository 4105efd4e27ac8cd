"""The federated algorithms: one a file, and a table of their names.

An algorithm says which part of the model is shared, how many iterations a device is charged for, and how a
device trains; the rest (`rounds.py`) is the same for all. A new one is a function from the learning settings
to an `Algorithm`, registered by `register` or named in the settings as ``package.module:function``.
"""

from pmafl.errors import InputError
from pmafl.learning.algorithms.base import Algorithm, Constructor
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.learning.algorithms.fedprox import fedprox
from pmafl.learning.algorithms.fedrep import fedrep
from pmafl.learning.algorithms.local import local
from pmafl.learning.algorithms.pma import pma
from pmafl.plugins import load_object
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
    if name in ALGORITHMS:
        return ALGORITHMS[name](learning)
    if ":" not in name:
        known = ", ".join(ALGORITHMS)
        raise InputError(f"learning.algorithm = {name!r}: must be {known}, or package.module:name")
    algorithm = load_object(name, "learning.algorithm")(learning)
    if not isinstance(algorithm, Algorithm):
        kind = type(algorithm).__name__
        raise InputError(f"learning.algorithm = {name!r}: must return an Algorithm, but returned {kind}")
    return algorithm
