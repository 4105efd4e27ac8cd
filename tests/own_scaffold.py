"""SCAFFOLD as a user would write it, outside of the package: one rate, full batches, no momentum, and
everybody takes part in every round.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: stochastic controlled averaging for federated
learning. ICML 2020.
"""

from pmafl.learning.algorithms import Algorithm


def scaffold(learning) -> Algorithm:
    """Every device corrects its steps by what its gradient usually lacks of that of all devices."""
    rate, steps = learning.extractor_rate, learning.iterations

    def start(model):
        nothing = model.flat.new_zeros(model.parameters)
        return {"model": model.flat.clone(), "control": nothing}, {"control": nothing}

    def local(engine, server, device, samples, rng):
        model = server["model"].clone()
        for _ in range(steps):
            _, gradient = engine.gradient(model, samples)
            model -= rate * (gradient - device["control"] + server["control"])
        control = device["control"] - server["control"] + (server["model"] - model) / (steps * rate)
        return {"model": model, "control": control - device["control"]}, {"control": control}

    def aggregate(server, combined):
        return {"model": combined["model"], "control": server["control"] + combined["control"]}

    return Algorithm(
        start,
        local,
        lambda server, device: server["model"],
        steps,
        uploads=lambda split, parameters: {"model": parameters, "control": parameters},
        aggregate=aggregate,
        common=lambda split, parameters: parameters,
    )
