"""Ditto as a user would write it, outside of the package.

Li, Hu, Beirami, Smith: Ditto: fair and robust federated learning through personalization. ICML 2021.
"""

from pmafl.learning.algorithms import Algorithm


def ditto(learning, weight: float = 0.1) -> Algorithm:
    """A shared model by FedAvg, and beside it a personal one that is drawn towards it."""

    def start(model):
        return {"model": model.flat.clone()}, {"personal": model.flat.clone()}

    def local(engine, server, device, samples, rng):
        shared = engine.train(server["model"], samples, rng, learning.iterations)
        own = engine.train(
            device["personal"],
            samples,
            rng,
            learning.iterations,
            proximal_weight=weight,
            centre=server["model"],
        )
        return {"model": shared}, {"personal": own}

    return Algorithm(
        start,
        local,
        lambda server, device: device["personal"],
        iterations=2 * learning.iterations,
        uploads=lambda split, parameters: {"model": parameters},
    )
