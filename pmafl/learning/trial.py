"""Trying a network out on made-up samples, to learn what its code does beyond giving scores.

A user's network is any code. Whether it draws random numbers, changes its inputs in place, lets samples of
one batch see each other or needs two of them is found by passes of a few samples, not by the names of its
layers. Every pass leaves the network and torch's random state as they were.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pmafl.errors import InputError
from pmafl.learning.division import is_chain, members
from pmafl.plugins import blaming

EXAMPLE_SEED = 1
SAME = 1e-4  # relative; passes of one size round alike, so this is ample
NUDGE = 0.1  # instead of parameters that begin at zero, through which nothing would be seen
TOGETHER = 4  # samples; of two, BatchNorm gives the signs of their difference and little more
PASSES = 3  # of training, after which a counter that matters has made a difference


@dataclass(frozen=True)
class Traits:
    """What a network does.

    Attributes:
        changing: names of the buffers that training changes and a model carries.
        random: per member of a chain (of the network itself, if it is none): does it draw random numbers?
        rewriting: per member of a chain: would a pass that begins there change its input in place?
        coupled: whether samples of one batch change each other's scores in training; buffers pass for it.
        alone: whether it can be trained on a single sample.
    """

    changing: frozenset[str]
    random: list[bool]
    rewriting: list[bool]
    coupled: bool
    alone: bool


def try_out(
    module: nn.Module, setting: str, input_shape: tuple[int, ...], vocabulary: int, frozen: bool
) -> Traits:
    """The traits of a network on the CPU, `frozen` buffers being left alone; refuses what no run can use."""
    with blaming(setting):
        changing = changing_buffers(module, example(input_shape, 2, vocabulary))
        still = {owner_of(module, name)[0] for name in changing if frozen}
        trial = _Trial(module, different(input_shape, 2 * TOGETHER - 1, vocabulary), still)
        in_training, in_tests = trial.walk(training=True), trial.walk(training=False)
        if any(random for random, _ in in_tests):
            raise InputError("draws random numbers in evaluation mode; must do so only where self.training")
        if trial.couples(training=False):
            raise InputError(
                "in evaluation mode the other samples of a batch change a sample's scores; must not, so that "
                "every device is tested by itself: use running statistics, or norms of single samples"
            )
        if name := trial.forgotten(changing):
            raise InputError(
                f"buffer {name!r} changes in training and decides scores, but no device keeps it; must be of "
                f"torch.float32 and part of the state_dict"
            )
        coupled = (bool(changing) and not frozen) or trial.couples(training=True)
        return Traits(
            changing,
            [random for random, _ in in_training],
            [one or other for (_, one), (_, other) in zip(in_training, in_tests, strict=True)],
            coupled,
            alone=trial.alone() if coupled or changing else True,
        )


def example(input_shape: tuple[int, ...], count: int, vocabulary: int = 0) -> Tensor:
    """Made-up samples to try a network with: the same for the same shape; of token ids the largest."""
    if vocabulary:
        return torch.full((count, *input_shape), vocabulary - 1)
    return torch.randn(count, *input_shape, generator=torch.Generator().manual_seed(EXAMPLE_SEED))


def different(input_shape: tuple[int, ...], count: int, vocabulary: int = 0) -> Tensor:
    """Made-up samples that differ from each other, of token ids too."""
    if not vocabulary:
        return example(input_shape, count)
    generator = torch.Generator().manual_seed(EXAMPLE_SEED)
    return torch.randint(vocabulary, (count, *input_shape), generator=generator)


def changing_buffers(module: nn.Module, samples: Tensor) -> frozenset[str]:
    """Names of the buffers of modules that change some of theirs in training.

    Others, such as masks and codes of positions, are constants: nobody has to send or keep them.
    """
    with as_it_was(module) as before:
        kept = {name for name in before if before[name].is_floating_point() and name in module.state_dict()}
        if not kept:
            return frozenset()
        module.train()
        with torch.no_grad():
            module(samples.clone())
        changed = {owner_of(module, name)[0] for name in _changed(module, before) if name in kept}
    names = frozenset(name for name in kept if owner_of(module, name)[0] in changed)
    for name, value in before.items():
        if name in names and value.dtype != torch.float32:
            raise InputError(f"buffer {name!r} is {value.dtype}; must be torch.float32")
    return names


@contextmanager
def as_it_was(module: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Give the buffers; whatever happens inside, they and torch's random state are the same afterwards."""
    before = {name: value.clone() for name, value in module.named_buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(EXAMPLE_SEED)
            yield {name: value.clone() for name, value in before.items()}
    finally:
        module.eval()
        for name, value in before.items():
            place, key = owner_of(module, name)
            place._buffers[key] = value


def owner_of(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that has a buffer, and what it calls it."""
    path, _, key = name.rpartition(".")
    return module.get_submodule(path), key


def is_stochastic(module: nn.Module) -> bool:
    """Whether a module has dropout among its members, whether or not that draws."""
    return any(isinstance(member, nn.modules.dropout._DropoutNd) for member in module.modules())


class _Trial:
    """Passes of one module; those in `still` are never in the mode of training."""

    def __init__(self, module: nn.Module, samples: Tensor, still: Set[nn.Module]) -> None:
        self._module, self._samples, self._still = module, samples, still

    def walk(self, training: bool) -> list[tuple[bool, bool]]:
        """Per member of a chain: does it draw random numbers, is its input changed by it or what follows?"""
        module = self._module
        return self._walk(list(members(module)) if is_chain(module) else [module], training)

    @torch.no_grad()
    def _walk(self, chain: Sequence[nn.Module], training: bool) -> list[tuple[bool, bool]]:
        x, inputs, random = self._pair(), [], []
        with as_it_was(self._module):
            self._mode(training)
            for member in chain:
                inputs.append(_watched(x))
                before = torch.get_rng_state()
                x = member(x)
                drew = not torch.equal(before, torch.get_rng_state())
                random.append(drew or (training and is_stochastic(member)))
        return [(drew, rewritten()) for drew, rewritten in zip(random, inputs, strict=True)]

    def couples(self, training: bool) -> bool:
        """Whether the first sample's scores depend on the samples beside it."""
        with _nudged(self._module):
            one = self._scores([0, *range(1, TOGETHER)], training)
            other = self._scores([0, *range(TOGETHER, 2 * TOGETHER - 1)], training)
        return _differ(one[0], other[0])

    def alone(self) -> bool:
        """Whether a single sample gets scores in training; two or more do."""
        try:
            return bool(self._scores([0], training=True).isfinite().all())
        except Exception:
            return False

    @torch.no_grad()
    def forgotten(self, carried: Set[str]) -> str:
        """The first buffer that training changes, nobody carries, and scores depend on; empty: none."""
        module = self._module
        with as_it_was(module) as before:
            if not (left := [name for name in before if name not in carried and not self._counts(name)]):
                return ""
            self._mode(training=True)
            for _ in range(PASSES):
                module(self._pair())
            module.eval()
            scores, changed = module(self._pair()), _changed(module, before)
            for name in (name for name in left if name in changed):
                place, key = owner_of(module, name)
                place._buffers[key] = before[name]
                if _differ(scores, module(self._pair())):
                    return name
        return ""

    def _counts(self, name: str) -> bool:
        """Whether a buffer is a counter of BatchNorm, of which there are many and tests use none."""
        place, key = owner_of(self._module, name)
        return isinstance(place, nn.modules.batchnorm._NormBase) and key == "num_batches_tracked"

    @torch.no_grad()
    def _scores(self, rows: list[int], training: bool) -> Tensor:
        with as_it_was(self._module):
            self._mode(training)
            scores: Tensor = self._module(self._samples[rows])
        return scores

    def _pair(self) -> Tensor:
        return self._samples[:2].clone()

    def _mode(self, training: bool) -> None:
        self._module.train(training)
        for module in self._still:
            module.training = False


def _watched(x: object) -> Callable[[], bool]:
    """Whether a tensor has been changed since now."""
    if not isinstance(x, Tensor):
        return lambda: False
    version, copy = x._version, x.clone()
    return lambda: x._version != version or not torch.equal(x, copy)


def _changed(module: nn.Module, before: dict[str, Tensor]) -> list[str]:
    after = dict(module.named_buffers())
    return [name for name, value in before.items() if not _equal(value, after.get(name))]


def _equal(one: Tensor, other: Tensor | None) -> bool:
    return other is not None and one.dtype == other.dtype and torch.equal(one, other)


@contextmanager
def _nudged(module: nn.Module) -> Iterator[None]:
    """Give parameters that are zero, as the last layers of some networks, small random values inside."""
    generator = torch.Generator().manual_seed(EXAMPLE_SEED)
    zero = [(value, value.detach().clone()) for value in module.parameters() if not value.any()]
    try:
        for parameter, _ in zero:
            parameter.data.copy_(NUDGE * torch.randn(parameter.shape, generator=generator))
        yield
    finally:
        for parameter, value in zero:
            parameter.data.copy_(value)


def _differ(one: Tensor, other: Tensor) -> bool:
    """By more than rounding; where there are no numbers, nothing is known to differ."""
    return bool(((one - other).abs() > SAME * one.abs().max()).any())
