"""Algorithms as a user might write them: one whose uploads differ by device, and many that are wrong."""

from dataclasses import replace

import torch

from pmafl.learning.algorithms import Algorithm
from pmafl.learning.algorithms.fedavg import fedavg


def parts(learning, sends_high: list[bool]) -> Algorithm:
    """One model for all; every device sends the lower layers, and some of them the upper ones too."""

    def divide(weights, split):
        return {"low": weights[:split], "high": weights[split:]}

    def local(engine, server, device, samples, rng):
        trained = engine.train(personal(server, device), samples, rng, learning.iterations)
        return divide(trained, engine.model.split), device

    def personal(server, device):
        return torch.cat([server["low"], server["high"]])

    return Algorithm(
        lambda model: (divide(model.flat, model.split), {}),  # views of what training overwrites
        local,
        personal,
        learning.iterations,
        uploads=lambda split, parameters: {
            "low": split,
            "high": [parameters - split if sends else 0 for sends in sends_high],
        },
        common=lambda split, parameters: parameters,
    )


def receives_little(learning) -> Algorithm:
    """The server holds a secret that no device receives; devices count what they saw."""

    def start(model):
        return {"model": model.flat.clone(), "secret": torch.ones(3)}, {"seen": torch.zeros(1)}

    def local(engine, server, device, samples, rng):
        assert list(server) == ["model"]
        return {"model": server["model"] + 1}, {"seen": device["seen"] + len(server)}

    return Algorithm(
        start,
        local,
        lambda server, device: server["model"] + 0 * len(server),
        1,
        uploads=lambda split, parameters: {"model": parameters},
        downloads=lambda split, parameters: {"model": parameters},
    )


def counts_uploads(learning) -> Algorithm:
    """FedAvg whose server writes down what share of the devices uploaded."""

    def start(model):
        return {"model": model.flat.clone(), "share": torch.zeros(1)}, {}

    def aggregate(server, combined, share):
        return {"model": combined["model"], "share": torch.tensor([share])}

    return replace(fedavg(learning), start=start, aggregate=aggregate)


def _returns(result):
    """FedAvg, but a device returns what `result` makes of its weights."""
    return lambda learning: replace(
        fedavg(learning), local=lambda engine, server, device, samples, rng: result(server["model"])
    )


other_name = _returns(lambda model: ({"weights": model}, {}))
too_short = _returns(lambda model: ({"model": model[1:]}, {}))
nothing_sent = _returns(lambda model: ({}, {}))
more_names = _returns(lambda model: ({"model": model, "more": model}, {}))
no_pair = _returns(lambda model: {"model": model})
three = _returns(lambda model: ({"model": model}, {}, 1.0))
no_mapping = _returns(lambda model: (model, {}))
a_list = _returns(lambda model: ({"model": model.tolist()}, {}))
a_matrix = _returns(lambda model: ({"model": model[:, None]}, {}))
double = _returns(lambda model: ({"model": model.double()}, {}))
new_memory = _returns(lambda model: ({"model": model}, {"step": torch.ones(1)}))
no_memory = _returns(lambda model: ({"model": model}, None))
fails = _returns(lambda model: model.no_such_thing)
in_place = _returns(lambda model: ({"model": model.add_(1)}, {}))
in_a_part = _returns(lambda model: ({"model": model[:3].zero_()}, {}))


def _changed(**changes):
    return lambda learning: replace(fedavg(learning), **changes)


start_of_one = _changed(start=lambda model: {"model": model.flat})
short_personal = _changed(personal=lambda server, device: server["model"][1:])
forgets = _changed(aggregate=lambda server, combined: {})
aggregates_nothing = _changed(aggregate=lambda server, combined: None)
unknown_download = _changed(downloads=lambda split, parameters: {"secret": 3})
unknown_upload = _changed(uploads=lambda split, parameters: {"delta": parameters})
other_size = _changed(uploads=lambda split, parameters: {"model": parameters - 1})
sizes_by_device = _changed(uploads=lambda split, parameters: {"model": [parameters, parameters - 2] * 2})
other_lengths = _changed(uploads=lambda split, parameters: {"model": [parameters] * 4, "more": [1] * 3})
too_few_devices = _changed(uploads=lambda split, parameters: {"model": [parameters] * 3})
negative = _changed(uploads=lambda split, parameters: {"model": -parameters})
half_a_value = _changed(uploads=lambda split, parameters: {"model": parameters / 2})


def fails_at_once(learning) -> Algorithm:
    raise ZeroDivisionError("no rate\nat all")
