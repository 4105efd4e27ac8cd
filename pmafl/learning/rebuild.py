"""How to rebuild a network outside of a run, with pmafl or without it."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pmafl.errors import InputError, first_line
from pmafl.learning import networks
from pmafl.learning.architecture import Architecture, find_network
from pmafl.learning.method import Method
from pmafl.learning.model import build_module
from pmafl.learning.trial import example
from pmafl.streams import stream

CODE = "network.py"  # what the file with pmafl's own networks is called elsewhere


def fresh_module(method: Method, seed: int, values: Mapping[str, Tensor]) -> nn.Module:
    """The network of a method, as it was written, with these values, ready to be used."""
    rng = stream(seed, "weights")
    module = build_module(method.learning, *method.form_of_data, rng, method.kind_of_data)
    own = {name: value for name, value in module.state_dict().items() if not isinstance(value, Tensor)}
    module.load_state_dict({**own, **values})
    return module.eval()


def recipe(method: Method) -> dict[str, Any]:
    """The function that builds the network, where its code is, and what to call it with.

    `code` is a file beside the description (`code_of_networks`), or a module of the user's own.
    """
    learning, (shape, classes) = method.learning, method.form_of_data
    build = find_network(learning.model)
    made = build(shape, classes, **learning.model_options)
    if isinstance(made, Architecture):
        layers = [asdict(layer) for layer in made.layers]
        return {"code": CODE, "function": "chain", "arguments": [layers], "options": {}}
    own_module, _, own_name = learning.model.partition(":")
    ours = getattr(build, "__module__", "") == networks.__name__
    return {
        "code": CODE if ours else own_module,
        "function": build.__name__ if ours else own_name,
        "arguments": [list(shape), classes],
        "options": dict(learning.model_options),
    }


def code_of_networks() -> str:
    """Python code of all networks of pmafl; it needs torch alone."""
    return Path(networks.__file__).read_text(encoding="utf-8")


def as_onnx(module: nn.Module, method: Method) -> bytes:
    """A network with any number of samples as its input ``x``, and their scores as its output ``scores``."""
    samples = example(method.form_of_data[0], 2, method.model.vocabulary)
    torch_log = logging.getLogger("torch.onnx")
    level = torch_log.level
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():  # it talks about its progress
            warnings.simplefilter("ignore")
            torch_log.setLevel(logging.ERROR)  # and about packages that are not needed
            program = torch.onnx.export(
                module,
                (samples,),
                dynamo=True,
                input_names=["x"],
                output_names=["scores"],
                dynamic_shapes=({0: torch.export.Dim("samples")},),
                verbose=False,
            )
    except Exception as error:
        reason = first_line(_first_cause(error))  # the others tell how to report it to torch's developers
        raise InputError(
            f"learning.model = {method.model.name!r}: torch cannot write it as ONNX: {reason:.200}"
        ) from error
    finally:
        torch_log.setLevel(level)
    assert program is not None, "without a file to write, it is returned"
    content: bytes = program.model_proto.SerializeToString()
    return content


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
