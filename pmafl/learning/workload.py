"""What a round costs a device: bits to upload (Q), operations per sample (G), iterations to charge (tau).

All three follow from the model, its split and the algorithm, so energy and learning always agree. For the
paper's own networks nothing here needs torch.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl.errors import InputError
from pmafl.learning.algorithms import Algorithm, find_algorithm
from pmafl.learning.architecture import ARCHITECTURES, Architecture, shared_parameters
from pmafl.learning.form import CLASSES_OF_MEASUREMENTS, Form, check_measurements
from pmafl.plugins import blaming
from pmafl.registry import check_options
from pmafl.settings import LearningSettings

RECEIVED_BITS = 32  # per parameter: what the server sends is not rounded
BLOCK = 1024  # 8-bit uploads carry one 32-bit scale for so many parameters


@dataclass(frozen=True)
class Workload:
    """The costs of one device's round; the number of its samples comes from the partition.

    Attributes:
        upload_bits: one number, or an array with an entry per device where uploads differ.
        operations_per_sample: multiply-adds of one pass over a sample.
        charged_iterations: passes over its samples in a round.
        download_bits: what a device receives, 32 bits per value, in the same form. It takes time and energy
            where the settings give a rate and powers; in the paper the server sends at no cost to devices.
        tuning_iterations: passes before a test, once, when training is over; no round is charged for them.
    """

    upload_bits: int | NDArray[np.int64]
    operations_per_sample: float
    charged_iterations: int
    download_bits: int | NDArray[np.int64] = 0
    tuning_iterations: int = 0


def workload(
    learning: LearningSettings,
    input_shape: tuple[int, ...] | None = None,
    classes: int = 10,
    form: Form = CLASSES_OF_MEASUREMENTS,
) -> Workload:
    """The costs under these settings. `input_shape` may be left out for the paper's networks.

    >>> from pmafl.settings import load
    >>> workload(load("mnist").learning).upload_bits
    8531968
    """
    algorithm = find_algorithm(learning)
    if learning.model in ARCHITECTURES and not (learning.shared or learning.shared_prefix):
        architecture = papers_network(learning, input_shape, classes, form)
        split = shared_parameters(architecture, learning.shared_layers)
        if algorithm.split == "norms":  # of which there are none
            split = architecture.parameters
        return charge(learning, algorithm, split, architecture.parameters, described(learning, architecture))

    from pmafl.learning.method import sizes_of
    from pmafl.learning.model import build_model, operations

    shape = input_shape or ARCHITECTURES.get(learning.model, ARCHITECTURES["mlp"])().input_shape
    model = build_model(learning, shape, classes, np.random.default_rng(0), form=form, split=algorithm.split)
    counted = operations(learning, model, shape, classes)
    return charge(learning, algorithm, *sizes_of(model, algorithm, learning), counted)


def papers_network(
    learning: LearningSettings, input_shape: tuple[int, ...] | None, classes: int, form: Form
) -> Architecture:
    """The one of the paper's networks that the settings name, which has no options."""
    check_measurements(learning.model, form)
    build = ARCHITECTURES[learning.model]
    check_options(build, f"network {learning.model!r}", 2, learning.model_options)
    return build() if input_shape is None else build(input_shape, classes)


def described(learning: LearningSettings, architecture: Architecture) -> float:
    """Operations per sample and iteration of one of the paper's networks, under these settings."""
    if learning.operations_per_sample == "count":
        return architecture.multiply_adds
    if learning.operations_per_sample == "training":
        return architecture.training_multiply_adds
    if learning.operations_per_sample == "paper":
        return architecture.parameters if architecture.name == "mlp" else architecture.multiply_adds
    return learning.operations_per_sample


def charge(
    learning: LearningSettings, algorithm: Algorithm, split: int, parameters: int, operations: float
) -> Workload:
    """The costs of a model with `parameters` parameters, the first `split` of them in the extractor."""
    with blaming(f"algorithm {learning.algorithm!r}"):
        sent = uploaded_bits(learning, algorithm, split, parameters)
        downloads = (algorithm.downloads or algorithm.uploads)(split, parameters)
        received = _total([RECEIVED_BITS * np.asarray(size) for size in downloads.values()])
    if learning.upload_bits:  # of a model that nobody trains here: as much is received
        sent = received = round(learning.upload_bits)
    return Workload(
        upload_bits=sent,
        operations_per_sample=float(operations),
        charged_iterations=algorithm.iterations,
        download_bits=received,
        tuning_iterations=algorithm.tuning_iterations,
    )


def uploaded_bits(learning: LearningSettings, algorithm: Algorithm, split: int, parameters: int) -> Any:
    """All that a device uploads in a round, in bits; an array where it differs by device."""
    return _total([upload_bits(size, learning) for size in algorithm.uploads(split, parameters).values()])


def _total(bits: Sequence[Any]) -> Any:
    """Size of all that travels together; an array where it differs by device."""
    if len(lengths := {len(one) for one in bits if np.ndim(one)}) > 1:
        given = " and of ".join(map(str, sorted(lengths)))
        raise InputError(f"gives upload sizes of {given} devices; it must give one for each device")
    total = sum(bits)
    return total if np.ndim(total) else int(total)


def upload_bits(parameters: int | Sequence[int], learning: LearningSettings) -> Any:
    """Size of an upload as it is encoded; an array where it differs by device."""
    from pmafl.learning.uploads import Uploads  # which uses this module

    one = not np.ndim(parameters)
    given: Any = [parameters] if one else parameters
    sizes = [operator.index(size) for size in given]
    if min(sizes, default=0) < 0:
        raise InputError(f"the size of an upload is {min(sizes)}; it must be 0 or more")
    bits = Uploads(learning).bits(sizes[0] if one else sizes)
    return bits if isinstance(bits, int) else np.array(bits)


def rounded_bits(parameters: int, bits_per_parameter: int) -> int:
    """Size of a rounded vector, the scales of 8-bit ones included."""
    scales = 32 * ceil(parameters / BLOCK) if bits_per_parameter == 8 else 0
    return parameters * bits_per_parameter + scales
