"""A network as one flat vector of values, split into a shared extractor and a personal predictor.

Every parameter tensor is a view of `Model.flat` and every gradient a view of `Model.gradient`, so loading a
device's weights, a training step and an upload are each one operation on one vector. The extractor is always
its leading slice, whichever parameters are shared. Buffers that training changes, such as the running
statistics of BatchNorm, stand in the vector behind the parameters of their part, and no gradient step touches
them. What is frozen is in no vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor, nn

from pmafl.errors import InputError, first_line
from pmafl.learning.algorithms import Split
from pmafl.learning.architecture import ARCHITECTURES, Architecture, find_network
from pmafl.learning.division import divide, is_chain, members
from pmafl.learning.form import CLASSES_OF_MEASUREMENTS, Form
from pmafl.learning.layout import Chain, OneDnnChain, fits_onednn, keep_freed_memory, suits_channels_last
from pmafl.learning.networks import chain
from pmafl.learning.objective import CLASSES, Objective, values
from pmafl.learning.operations import forward_operations, training_operations
from pmafl.learning.trial import Traits, as_it_was, example, owner_of, try_out
from pmafl.learning.workload import described, papers_network
from pmafl.registry import check_options
from pmafl.settings import LearningSettings

# Samples that go through the network at once: as many as pays.
ONEDNN_CHUNK = 250
CONVOLUTION_CHUNK = 50
DENSE_CHUNK = 1000


class Model:
    """A module on flat vectors: ``predictor(extractor(x))``, the first `split` values being shared.

    Where the shared values are no leading layers, `extractor` passes its input on, `predictor` is the whole
    module, and `layered` is false: features then cannot be computed apart.

    Attributes:
        flat: parameters that are trained, and the buffers that go with them.
        own: buffers that every device keeps for itself, whatever the algorithm (`learning.buffers`).
        whole: both, one behind the other.
        parameters: values in `flat`.
        split: how many of them are shared.
        trained: of those, and of the others, the slices that gradient steps change.
        undivided: why nothing says what is shared; empty where something does.
        coupled: whether samples of one batch change each other's results in training.
        smallest_batch: how many samples a step of training needs.
        random: per member, whether it draws random numbers in training.
        stochastic: whether any does.
        statistics: how many values of `flat` are buffers.
        frozen: whether there are parameters that are not trained.
        objective: what it is trained for.
        vocabulary: it takes token ids below this; 0 where it takes measurements.
    """

    objective: Objective = CLASSES
    vocabulary: int = 0

    def __init__(
        self,
        module: nn.Module,
        learning: LearningSettings,
        traits: Traits,
        split: Split = "settings",
    ) -> None:
        """`traits` are what a trial of the module showed; `split` says what divides it."""
        changing = traits.changing
        self.name, self.module = learning.model, module
        self.members = list(members(module)) if is_chain(module) else []
        self.frozen = any(not p.requires_grad for p in module.parameters())
        statistics = {name: value for name, value in module.named_buffers() if name in changing}
        in_vector = statistics if learning.buffers == "shared" else {}
        division = divide(module, learning, in_vector, split)
        self.undivided = division.missing
        self.layered = division.leading >= 0
        in_onednn = self.layered and fits_onednn(self.members)
        kind = OneDnnChain if in_onednn else Chain
        first, rest = division.layers[: division.leading], division.layers[division.leading :]
        self._rewriting = traits.rewriting
        self.extractor: Chain = kind(*members(*first)) if self.layered else Chain()
        self.predictor: nn.Module = kind(*members(*rest)) if self.layered else module
        self.extractor.copies = traits.rewriting[0]
        if isinstance(self.predictor, Chain) and len(self.predictor):
            self.predictor.copies = traits.rewriting[len(self.extractor)]

        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise InputError(f"learning.model = {self.name!r}: has no parameters to train")
        self.shared = [p for p in trained if id(p) in division.shared]
        self.personal = [p for p in trained if id(p) not in division.shared]
        shared_buffers = {k: b for k, b in in_vector.items() if id(b) in division.shared}
        personal_buffers = {k: b for k, b in in_vector.items() if id(b) not in division.shared}
        own = statistics if learning.buffers == "personal" else {}

        groups = shared_buffers.values(), personal_buffers.values(), own.values()
        self.whole, ends = _join(self.shared, [*groups[0]], self.personal, [*groups[1]], [*groups[2]])
        self.split, self.parameters = ends[1], ends[3]
        self.flat, self.own = self.whole[: self.parameters], self.whole[self.parameters :]
        self.gradient = torch.zeros_like(self.flat)
        for parameter in trained:
            parameter.grad = view_like(parameter, self.gradient)
        self.statistics = sum(value.numel() for value in in_vector.values())
        self.trained = slice(0, ends[0]), slice(ends[1], ends[2])
        placed = {**shared_buffers, **personal_buffers, **own}
        self._buffers = [(*owner_of(module, name), value) for name, value in placed.items()]
        self._fixed = [
            (*owner_of(module, name), value.clone())
            for name, value in module.named_buffers()
            if learning.buffers == "frozen" or name not in changing
        ]
        self._still = {owner_of(module, name)[0] for name in changing if learning.buffers == "frozen"}
        normalises = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.coupled = bool(self._buffers) or any(m not in self._still for m in normalises) or traits.coupled
        self.smallest_batch = 1 if traits.alone else 2
        self.random, self.stochastic = traits.random, any(traits.random)
        self.convolutional = any(isinstance(m, nn.Conv2d) for m in module.modules())
        self.channels_last = suits_channels_last(module.modules())
        self.chunk = DENSE_CHUNK
        if self.convolutional:
            self.chunk = ONEDNN_CHUNK if in_onednn else CONVOLUTION_CHUNK
            keep_freed_memory()

    def __call__(self, x: Tensor) -> Tensor:
        logits: Tensor = self.predictor(self.extractor(x))
        return logits

    def chain(self, start: int, end: int) -> nn.Module:
        """Some of the members of a layered model, in the layout that it runs in."""
        part = type(self.extractor)(*self.members[start:end])
        part.copies = start < end and self._rewriting[start]
        return part

    def load(self, values: Tensor, start: int = 0) -> None:
        """Set parameters and buffers from position `start` on."""
        self.whole[start : start + values.numel()].copy_(values)

    def train_only(self, shared: bool, personal: bool) -> None:
        """Choose which part the backward pass computes gradients for."""
        for parameters, wanted in ((self.shared, shared), (self.personal, personal)):
            for parameter in parameters:
                parameter.requires_grad_(wanted)

    def prepare_training(self) -> None:
        """The mode of training. Counters begin anew, what is fixed is as it was, frozen statistics stay."""
        self.module.train()
        for module in self._still:
            module.training = False
        self._put_back()

    def prepare_testing(self) -> None:
        """The mode of tests. What nobody carries along is as it was, whoever trained before."""
        self.module.eval()
        self._put_back()

    def collect_buffers(self) -> None:
        """After forward passes: take over buffers that a module has replaced instead of changed."""
        for owner, key, view in self._buffers:
            if (now := owner._buffers[key]) is not view and now is not None:
                view.copy_(now.detach())
                owner._buffers[key] = view

    def state_dict(self, values: Tensor) -> dict[str, Tensor]:
        """All parameters and buffers by name, as torch knows them, of a model with these values."""
        self.load(values)
        self._put_back()
        named = self.module.state_dict().items()  # extra state of a module's own need not be a tensor
        layout = torch.contiguous_format  # files hold no other
        return {
            name: value.detach().clone(memory_format=layout)
            for name, value in named
            if isinstance(value, Tensor)
        }

    def _put_back(self) -> None:
        for owner, key, value in self._fixed:
            now = owner._buffers[key]
            if now is None or now.shape != value.shape:
                owner._buffers[key] = value.clone()
            else:
                now.copy_(value)


def build_model(
    learning: LearningSettings,
    input_shape: tuple[int, ...],
    classes: int,
    rng: np.random.Generator,
    device: torch.device | str = "cpu",
    form: Form = CLASSES_OF_MEASUREMENTS,
    split: Split = "settings",
) -> Model:
    """The model that the settings name, its initial weights drawn from `rng`."""
    module = build_module(learning, input_shape, classes, rng, form)
    vocabulary = vocabulary_of(module, form)
    setting, frozen = f"learning.model = {learning.model!r}", learning.buffers == "frozen"
    traits = try_out(module, setting, input_shape, vocabulary, frozen)
    model = Model(module.to(device), learning, traits, split)
    model.objective, model.vocabulary = values(form.target_std) if form.target_std else CLASSES, vocabulary
    return model


def build_module(
    learning: LearningSettings,
    input_shape: tuple[int, ...],
    classes: int,
    rng: np.random.Generator,
    form: Form = CLASSES_OF_MEASUREMENTS,
) -> nn.Module:
    """The network that the settings name, as it was written, its initial weights drawn from `rng`."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(rng.integers(2**63)))  # networks are built on the CPU
        if learning.model in ARCHITECTURES:
            return as_module(papers_network(learning, input_shape, classes, form))
        return _user_module(learning, input_shape, classes, form)


def vocabulary_of(module: nn.Module, form: Form) -> int:
    """How many token ids a network takes; 0 where samples reach it as measurements.

    Whole numbers are ids where the settings say so, or the network has an embedding to look them up in.
    """
    embeds = any(isinstance(member, nn.Embedding | nn.EmbeddingBag) for member in module.modules())
    return form.vocabulary if form.tokens or embeds else 0


def as_module(architecture: Architecture) -> nn.Sequential:
    """The described network in torch."""
    return chain(asdict(layer) for layer in architecture.layers)


def operations(learning: LearningSettings, model: Model, input_shape: tuple[int, ...], classes: int) -> float:
    """Operations per sample and iteration that the settings charge for a model."""
    if learning.model in ARCHITECTURES:
        return described(learning, ARCHITECTURES[learning.model](input_shape, classes))
    if not isinstance(wanted := learning.operations_per_sample, str):
        return wanted
    count = training_operations if wanted == "training" else forward_operations
    model.train_only(shared=True, personal=True)
    return count(model.module, example(input_shape, 1, model.vocabulary).to(model.flat.device), model.name)


def _user_module(
    learning: LearningSettings, input_shape: tuple[int, ...], classes: int, form: Form
) -> nn.Module:
    setting, build = f"learning.model = {learning.model!r}", find_network(learning.model)
    if learning.model_options:
        check_options(build, f"network {learning.model!r}", 2, learning.model_options)
    try:
        module = build(input_shape, classes, **learning.model_options)
    except Exception as error:
        reason = first_line(error)
        raise InputError(f"{setting}: calling it with ({input_shape}, {classes}) failed: {reason}") from error
    if isinstance(module, Architecture):
        module = as_module(module)
    if not isinstance(module, nn.Module):
        raise InputError(f"{setting}: must return a torch.nn.Module, but returned {type(module).__name__}")
    _check_module(module, setting, example(input_shape, 2, vocabulary_of(module, form)), classes)
    return module


def _check_module(module: nn.Module, setting: str, samples: Tensor, classes: int) -> None:
    """Refuse what gives no scores, in tests or in training, or no gradient."""
    module.eval()
    with torch.no_grad():
        _check_scores(module, f"{setting}:", samples, classes)
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise InputError(f"{setting}: parameter {name!r} is {parameter.dtype}; must be torch.float32")
    with as_it_was(module), torch.enable_grad():
        module.train()
        scores = _check_scores(module, f"{setting}: in training mode", samples, classes)
        _check_gradient(module, f"{setting}: in training mode", scores)


def _check_scores(module: nn.Module, begin: str, samples: Tensor, classes: int) -> Tensor:
    """The scores of two samples, if they are such; errors begin with `begin`."""
    try:
        scores: object = module(samples.clone())
    except Exception as error:
        ids = "" if samples.is_floating_point() else f" with token ids up to {samples.max()}"
        reason = f"inputs of shape {tuple(samples.shape[1:])}{ids}: {first_line(error)}"
        raise InputError(f"{begin} does not take {reason}") from error
    if not isinstance(scores, Tensor):
        kind = type(scores).__name__
        raise InputError(f"{begin} gives a {kind} for 2 samples; must give one tensor, (2, {classes})")
    if (shape := tuple(scores.shape)) != (2, classes):
        raise InputError(f"{begin} gives outputs of shape {shape} for 2 samples; must be (2, {classes})")
    return scores


def _check_gradient(module: nn.Module, begin: str, scores: Tensor) -> None:
    """A parameter that scores do not depend on has the gradient zero, but not all of them may."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if trained and not scores.requires_grad:
        raise InputError(f"{begin} gives scores that depend on no parameter that is trained; one must")
    try:
        if trained:
            torch.autograd.grad(scores.sum(), trained, allow_unused=True)
    except Exception as error:
        raise InputError(f"{begin} has no gradient: {first_line(error)}") from error


def _join(*groups: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
    """Move tensors into one vector, leaving views behind; the vector, and where each group ends in it."""
    tensors = [tensor for group in groups for tensor in group]
    vector = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    position, ends = 0, []
    for group in groups:
        for tensor in group:
            end = position + tensor.numel()
            tensor.data = vector[position:end].view_as(tensor)
            position = end
        ends.append(position)
    return vector, ends


def view_like(parameter: Tensor, vector: Tensor) -> Tensor:
    """The place of a model's parameter in another vector of that model's length."""
    start = parameter.storage_offset()
    return vector[start : start + parameter.numel()].view_as(parameter)
