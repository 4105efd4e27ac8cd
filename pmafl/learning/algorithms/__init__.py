"""The federated algorithms: one per file, found by name or at ``package.module:name``.

A new one is a function from the learning settings and its options to an `Algorithm`. Ditto, which trains a
personal model beside the shared one, is:

    def ditto(learning, weight=0.1):
        shared = fedavg(learning)

        def start(model):
            return {"model": model.flat.clone()}, {"personal": model.flat.clone()}

        def local(engine, server, device, samples, rng):
            upload, _ = shared.local(engine, server, {}, samples, rng)
            mine = engine.train(device["personal"], samples, rng, learning.iterations,
                                proximal_weight=weight, centre=server["model"])
            return upload, {"personal": mine}

        return Algorithm(start, local, lambda server, device: device["personal"],
                         2 * learning.iterations, shared.uploads)
"""

from pmafl.errors import InputError
from pmafl.learning.algorithms.apfl import apfl
from pmafl.learning.algorithms.base import Algorithm, Maker, Split, split_model, together, whole_model
from pmafl.learning.algorithms.ditto import ditto
from pmafl.learning.algorithms.fedadam import fedadam
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.learning.algorithms.fedavgm import fedavgm
from pmafl.learning.algorithms.fedbabu import fedbabu
from pmafl.learning.algorithms.fedbn import fedbn
from pmafl.learning.algorithms.feddyn import feddyn
from pmafl.learning.algorithms.fedper import fedper
from pmafl.learning.algorithms.fedprox import fedprox
from pmafl.learning.algorithms.fedrep import fedrep
from pmafl.learning.algorithms.fine_tune import fine_tune
from pmafl.learning.algorithms.lg_fedavg import lg_fedavg
from pmafl.learning.algorithms.local import local
from pmafl.learning.algorithms.per_fedavg import per_fedavg
from pmafl.learning.algorithms.pfedme import pfedme
from pmafl.learning.algorithms.pma import pma
from pmafl.learning.algorithms.scaffold import scaffold
from pmafl.registry import Registry, make
from pmafl.settings import LearningSettings

__all__ = ["ALGORITHMS", "Algorithm", "Split", "find_algorithm", "split_model", "together", "whole_model"]

ALGORITHMS: Registry[Maker] = Registry(
    "algorithm",
    "learning.algorithm",
    {
        "pma": pma,
        "fedavg": fedavg,
        "fedprox": fedprox,
        "fedrep": fedrep,
        "local": local,
        "fedper": fedper,
        "lg-fedavg": lg_fedavg,
        "fedbn": fedbn,
        "fedbabu": fedbabu,
        "ditto": ditto,
        "apfl": apfl,
        "pfedme": pfedme,
        "per-fedavg": per_fedavg,
        "fine-tune": fine_tune,
        "scaffold": scaffold,
        "feddyn": feddyn,
        "fedavgm": fedavgm,
        "fedadam": fedadam,
    },
)


def find_algorithm(learning: LearningSettings) -> Algorithm:
    """The algorithm that the settings name, with its options."""
    name = learning.algorithm
    made = make(ALGORITHMS.find(name), f"algorithm {name!r}", (learning,), learning.options)
    if not isinstance(made, Algorithm):
        kind = type(made).__name__
        raise InputError(f"learning.algorithm = {name!r}: must return an Algorithm, but returned {kind}")
    return made
