"""A network as one flat parameter vector, split into a shared extractor and a personal predictor.

Every parameter tensor is a view of `Model.flat` and every gradient a view of `Model.gradient`, so loading a
device's weights, a training step and an upload are each one operation on one vector. The extractor is always
its leading slice. A user's own network is any `torch.nn.Module`; a Sequential can be split by layers,
anything else by a prefix of its parameters' names.
"""

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from pmafl.errors import InputError
from pmafl.learning.architecture import ARCHITECTURES, NETWORKS, Architecture, Convolution
from pmafl.learning.layout import Chain, OneDnnChain, fits_onednn, keep_freed_memory
from pmafl.settings import LearningSettings

# Samples that go through the network at once: as many as pays.
ONEDNN_CHUNK = 250
CONVOLUTION_CHUNK = 50
DENSE_CHUNK = 1000


class Model:
    """A module on flat vectors: ``predictor(extractor(x))``, the first `split` parameters being shared.

    Where a module can be split only by parameter names, `extractor` passes its input on, `predictor` is the
    whole module, and `layered` is false: features then cannot be computed apart.
    """

    def __init__(self, module: nn.Module, name: str, shared_layers: int, shared_prefix: str) -> None:
        self.name = name
        self.members = list(_members(module)) if isinstance(module, nn.Sequential) else []
        layers = _layers(self.members, name)
        if shared_prefix:
            first = _with_prefix(module, name, shared_prefix)
            shared_layers = _leading_layers(layers, first)
        else:
            _check_layers(module, name, layers, shared_layers)
            first = [p for layer in layers[:shared_layers] for p in layer.parameters()]
        self.layered = shared_layers >= 0 and bool(layers)
        in_onednn = self.layered and fits_onednn(self.members)
        chain = OneDnnChain if in_onednn else Chain
        self.extractor = chain(*_members(*layers[:shared_layers])) if self.layered else nn.Sequential()
        self.predictor = chain(*_members(*layers[shared_layers:])) if self.layered else module
        self.module = module

        chosen = {id(p) for p in first}
        self.shared = first
        self.personal = [p for p in module.parameters() if id(p) not in chosen]
        self.split = sum(p.numel() for p in first)
        self.flat, self.gradient = _flatten([*self.shared, *self.personal])
        self.parameters = self.flat.numel()
        self.stochastic = is_stochastic(module)
        self.convolutional = any(isinstance(m, nn.Conv2d) for m in module.modules())
        self.chunk = DENSE_CHUNK
        if self.convolutional:
            self.chunk = ONEDNN_CHUNK if in_onednn else CONVOLUTION_CHUNK
            keep_freed_memory()

    def __call__(self, x: Tensor) -> Tensor:
        logits: Tensor = self.predictor(self.extractor(x))
        return logits

    def chain(self, start: int, end: int) -> nn.Module:
        """Some of the members of a layered model, in the layout that it runs in."""
        return type(self.extractor)(*self.members[start:end])

    def load(self, weights: Tensor, start: int = 0) -> None:
        """Set the parameters from position `start` on."""
        self.flat[start : start + weights.numel()].copy_(weights)

    def train_only(self, shared: bool, personal: bool) -> None:
        """Choose which part the backward pass computes gradients for."""
        for parameters, wanted in ((self.shared, shared), (self.personal, personal)):
            for parameter in parameters:
                parameter.requires_grad_(wanted)


def build_model(
    learning: LearningSettings,
    input_shape: tuple[int, ...],
    classes: int,
    rng: np.random.Generator,
    device: torch.device | str = "cpu",
) -> Model:
    """The model that the settings name, its initial weights drawn from `rng`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        if learning.model in ARCHITECTURES:
            module: nn.Module = as_module(ARCHITECTURES[learning.model](input_shape, classes))
        else:
            module = _user_module(learning.model, input_shape, classes)
    return Model(module.to(device), learning.model, learning.shared_layers, learning.shared_prefix)


def as_module(architecture: Architecture) -> nn.Sequential:
    """The described network in torch. Pooling comes before ReLU: the same function, a quarter of the work."""
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    last = len(architecture.layers)
    for number, layer in enumerate(architecture.layers, start=1):
        if isinstance(layer, Convolution):
            modules[f"layer{number}"] = nn.Conv2d(layer.inputs, layer.outputs, layer.kernel)
            modules[f"pool{number}"] = nn.MaxPool2d(layer.pool)
        else:
            if "flatten" not in modules:
                modules["flatten"] = nn.Flatten()
            modules[f"layer{number}"] = nn.Linear(layer.inputs, layer.outputs)
        if number < last:
            modules[f"relu{number}"] = nn.ReLU()
    return nn.Sequential(modules)


def count_multiply_adds(model: Model, input_shape: tuple[int, ...]) -> int:
    """Multiply-adds of one sample's forward pass through any module."""
    from torch.utils.flop_counter import FlopCounterMode  # slow to import, and needed for users' models only

    model.module.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.module(torch.zeros(1, *input_shape, device=model.flat.device))
    return int(counter.get_total_flops()) // 2


def _user_module(path: str, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    setting, build = f"learning.model = {path!r}", NETWORKS.find(path)
    try:
        module = build(input_shape, classes)
    except Exception as error:
        reason = _first_line(error)
        raise InputError(f"{setting}: calling it with ({input_shape}, {classes}) failed: {reason}") from error
    if isinstance(module, Architecture):
        module = as_module(module)
    if not isinstance(module, nn.Module):
        raise InputError(f"{setting}: must return a torch.nn.Module, but returned {type(module).__name__}")
    _check_module(module, setting, input_shape, classes)
    return module


def _check_module(module: nn.Module, setting: str, input_shape: tuple[int, ...], classes: int) -> None:
    for name, _ in module.named_buffers():
        raise InputError(
            f"{setting}: {name!r} is a buffer, not a parameter, and would be neither shared nor personal; "
            f"use layers without running statistics, such as GroupNorm for BatchNorm"
        )
    module.eval()
    try:
        with torch.no_grad():
            shape = tuple(module(torch.zeros(2, *input_shape)).shape)
    except Exception as error:
        reason = _first_line(error)
        raise InputError(f"{setting}: does not take inputs of shape {input_shape}: {reason}") from error
    if shape != (2, classes):
        raise InputError(f"{setting}: gives outputs of shape {shape} for 2 samples; must be (2, {classes})")
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise InputError(f"{setting}: parameter {name!r} is {parameter.dtype}; must be torch.float32")
        if not parameter.requires_grad:
            raise InputError(
                f"{setting}: parameter {name!r} is frozen, but every parameter is trained; compute what does "
                f"not change beforehand and make it the data set"
            )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _layers(members: list[nn.Module], name: str) -> list[nn.Sequential]:
    """Group a chain into layers: each starts at a member with parameters and takes what follows along."""
    groups: list[list[nn.Module]] = []
    waiting: list[nn.Module] = []  # members before the first parameters, such as a leading Flatten
    for member in members:
        if any(True for _ in member.parameters()):
            groups.append([*waiting, member])
            waiting = []
        elif groups:
            groups[-1].append(member)
        else:
            waiting.append(member)
    layers = [nn.Sequential(*group) for group in groups]
    owners = [id(p) for layer in layers for p in layer.parameters()]
    if len(set(owners)) < len(owners):
        raise InputError(
            f"learning.model = {name!r}: two layers use one parameter, so no split between them exists"
        )
    return layers


def _members(*modules: nn.Module) -> Iterator[nn.Module]:
    for module in modules:
        if isinstance(module, nn.Sequential):
            yield from _members(*module)
        else:
            yield module


def _check_layers(module: nn.Module, name: str, layers: list[nn.Sequential], shared_layers: int) -> None:
    if not any(True for _ in module.parameters()):
        raise InputError(f"learning.model = {name!r}: has no parameters to train")
    if not layers:
        raise InputError(
            f"learning.model = {name!r}: a {type(module).__name__} has no order of layers to split; return a "
            f"torch.nn.Sequential, or set learning.shared_prefix to a prefix of its parameters' names"
        )
    if not 0 <= shared_layers <= len(layers):
        raise InputError(
            f"learning.shared_layers = {shared_layers}: must be 0 to {len(layers)}, "
            f"for model {name!r} has {len(layers)} layers"
        )


def _with_prefix(module: nn.Module, name: str, prefix: str) -> list[nn.Parameter]:
    chosen = [parameter for key, parameter in module.named_parameters() if key.startswith(prefix)]
    if not chosen:
        names = ", ".join(key for key, _ in module.named_parameters())
        raise InputError(
            f"learning.shared_prefix = {prefix!r}: no parameter of model {name!r} starts so; they are {names}"
        )
    return chosen


def _leading_layers(layers: list[nn.Sequential], chosen: list[nn.Parameter]) -> int:
    """How many leading layers hold exactly the chosen parameters, or -1 if they are no such thing."""
    left = {id(p) for p in chosen}
    for number, layer in enumerate(layers):
        if not left:
            return number
        own = {id(p) for p in layer.parameters()}
        if not own <= left:
            return -1
        left -= own
    return -1 if left else len(layers)


def _flatten(parameters: list[nn.Parameter]) -> tuple[Tensor, Tensor]:
    """Move the parameters and their gradients into one vector each, leaving views behind."""
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    gradient = torch.zeros_like(flat)
    position = 0
    for parameter in parameters:
        end = position + parameter.numel()
        parameter.data = flat[position:end].view_as(parameter)
        parameter.grad = view_like(parameter, gradient)
        position = end
    return flat, gradient


def is_stochastic(module: nn.Module) -> bool:
    """Whether a module draws random numbers while it is trained."""
    return any(isinstance(member, nn.modules.dropout._DropoutNd) for member in module.modules())


def view_like(parameter: Tensor, vector: Tensor) -> Tensor:
    """The place of a model's parameter in another vector of that model's length."""
    start = parameter.storage_offset()
    return vector[start : start + parameter.numel()].view_as(parameter)
