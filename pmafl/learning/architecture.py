"""The paper's two networks as plain descriptions: layers, parameters, multiply-adds.

Nothing here imports torch, so that the wireless side can charge a model's computation (G) and upload (Q)
without loading it. `model.py` builds the same descriptions as torch modules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

from pmafl.errors import InputError
from pmafl.plugins import load_object
from pmafl.registry import Registry


@dataclass(frozen=True)
class Linear:
    """A fully connected layer; a ReLU follows every layer but the last."""

    inputs: int
    outputs: int

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs + self.outputs

    @property
    def multiply_adds(self) -> int:
        return self.inputs * self.outputs


@dataclass(frozen=True)
class Convolution:
    """A convolution without padding, followed by max-pooling with stride `pool` and a ReLU."""

    inputs: int
    outputs: int
    kernel: int
    pool: int
    positions: int  # of the kernel in the layer's input, before pooling

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs * self.kernel**2 + self.outputs

    @property
    def multiply_adds(self) -> int:
        return self.inputs * self.outputs * self.kernel**2 * self.positions


@dataclass(frozen=True)
class Architecture:
    """A chain of layers from `input_shape` to `classes` scores."""

    name: str
    input_shape: tuple[int, ...]
    classes: int
    layers: tuple[Linear | Convolution, ...]

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Of one sample's forward pass, biases not counted: the paper's G."""
        return sum(layer.multiply_adds for layer in self.layers)

    @property
    def training_multiply_adds(self) -> int:
        """The same with the gradient: by the weights of every layer, by the inputs of all but the first."""
        return 3 * self.multiply_adds - self.layers[0].multiply_adds


def mlp(input_shape: tuple[int, ...] = (1, 28, 28), classes: int = 10) -> Architecture:
    """The paper's MLP: 512, 256 and 64 hidden units; 550,346 parameters on MNIST."""
    return Architecture("mlp", input_shape, classes, _dense(prod(input_shape), 512, 256, 64, classes))


def cnn(input_shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> Architecture:
    """The paper's CNN: two 5x5 convolutions, then 120 and 64 units; 307,842 parameters on CIFAR-10."""
    if len(input_shape) != 3 or min(input_shape[1:]) < 16:
        raise InputError(
            f"learning.model = 'cnn' needs images of shape (channels, height, width) with at least 16 x 16 "
            f"pixels, but the data has shape {input_shape}; use 'mlp' or a model of your own"
        )
    channels, height, width = input_shape
    first = Convolution(channels, 64, 5, 2, (height - 4) * (width - 4))
    height, width = (height - 4) // 2, (width - 4) // 2
    second = Convolution(64, 64, 5, 2, (height - 4) * (width - 4))
    height, width = (height - 4) // 2, (width - 4) // 2
    dense = _dense(64 * height * width, 120, 64, classes)
    return Architecture("cnn", input_shape, classes, (first, second, *dense))


def _dense(*units: int) -> tuple[Linear, ...]:
    return tuple(Linear(inputs, outputs) for inputs, outputs in pairwise(units))


# A network is a function of the shape of a sample and the number of classes. The paper's give a description;
# a user's own gives one too, or a torch module. Those that need torch stand here by their path.
NETWORKS: Registry[Callable[..., Any] | str] = Registry(
    "network",
    "learning.model",
    {
        "mlp": mlp,
        "cnn": cnn,
        "resnet8": "pmafl.learning.networks:resnet8",
        "resnet18": "pmafl.learning.networks:resnet18",
        "cnn1d": "pmafl.learning.networks:cnn1d",
        "lstm": "pmafl.learning.networks:lstm",
    },
)
ARCHITECTURES: dict[str, Callable[..., Architecture]] = {"mlp": mlp, "cnn": cnn}


def find_network(name: str) -> Callable[..., Any]:
    """The function that the settings name."""
    found = NETWORKS.find(name)
    build: Callable[..., Any] = load_object(found, "learning.model") if isinstance(found, str) else found
    return build


def shared_parameters(architecture: Architecture, shared_layers: int) -> int:
    """Parameters of the first `shared_layers` layers: what a split of the model uploads.

    >>> shared_parameters(mlp(), 2)
    533248
    """
    layers = len(architecture.layers)
    if not 0 <= shared_layers <= layers:
        raise InputError(
            f"learning.shared_layers = {shared_layers}: must be 0 to {layers}, "
            f"for model {architecture.name!r} has {layers} layers"
        )
    return sum(layer.parameters for layer in architecture.layers[:shared_layers])
