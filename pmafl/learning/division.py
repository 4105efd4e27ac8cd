"""Which values of a network are shared: its first layers, or those whose names match patterns.

A chain of layers (a `torch.nn.Sequential`) can be divided by their number. Any network can be divided by
names, as ``learning.shared`` gives them: ``["layer1.*", "!*.bn*"]``. A pattern adds what it matches, one
that begins with ``!`` takes away, and the last that matches a name decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeGuard

from torch import Tensor, nn

from pmafl.errors import InputError
from pmafl.learning.algorithms import Split
from pmafl.settings import LearningSettings

WITHOUT = "!"
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
NAMES_SHOWN = 20


@dataclass(frozen=True)
class Division:
    """What is shared of a network.

    Attributes:
        shared: identities of the tensors that are, parameters and buffers.
        layers: the layers of a chain, in order; none where there is no order.
        leading: how many leading layers are just what is shared; -1 where no number of them is.
        missing: why nothing says what is shared, where that is so; then all of it counts as shared.
    """

    shared: frozenset[int]
    layers: list[nn.Sequential]
    leading: int
    missing: str = ""


def divide(
    module: nn.Module, learning: LearningSettings, buffers: dict[str, Tensor], split: Split = "settings"
) -> Division:
    """Divide a network as the settings say; `buffers` are those that go with the parameters around them.

    A `split` by "norms" shares everything but normalisation layers instead, whatever the settings.
    """
    named = [(name, p) for name, p in module.named_parameters(remove_duplicate=False) if p.requires_grad]
    values: list[tuple[str, Tensor]] = [*named, *buffers.items()]
    layers = _layers(list(members(module)) if is_chain(module) else [])
    own = [_of_layer(layer, {id(value) for _, value in values}) for layer in layers]
    tied = len(set().union(*own)) < sum(map(len, own))
    if split == "norms":
        chosen = {id(value) for _, value in values} - _of_norms(module)
        return Division(frozenset(chosen), layers, -1 if tied else _leading(own, chosen))
    if learning.shared or learning.shared_prefix:
        chosen = _by_patterns(learning, module, values) if learning.shared else _by_prefix(learning, values)
        return Division(frozenset(chosen), layers, -1 if tied else _leading(own, chosen))
    if not layers or tied:
        what = (
            "two layers use one parameter, so no split between them exists"
            if tied
            else f"a {type(module).__name__} has no order of layers to split; return a torch.nn.Sequential"
        )
        missing = (
            f"learning.model = {learning.model!r}: {what}; or set learning.shared to patterns of the names "
            f"of its parameters, which are {_some_names([name for name, _ in named])}"
        )
        return Division(frozenset(id(value) for _, value in values), [], -1, missing)
    if not 0 <= learning.shared_layers <= len(layers):
        raise InputError(
            f"learning.shared_layers = {learning.shared_layers}: must be 0 to {len(layers)}, "
            f"for model {learning.model!r} has {len(layers)} layers"
        )
    chosen = set().union(*own[: learning.shared_layers])
    return Division(frozenset(chosen), layers, learning.shared_layers)


def is_chain(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Whether a module is what its members are, one after the other; its own `forward` may be anything."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def members(*modules: nn.Module) -> Iterator[nn.Module]:
    """The members of chains, and of chains within them."""
    for module in modules:
        if is_chain(module):
            yield from members(*module)
        else:
            yield module


def _layers(chain: list[nn.Module]) -> list[nn.Sequential]:
    """Group a chain into layers: each starts at a member with parameters and takes what follows along."""
    groups: list[list[nn.Module]] = []
    waiting: list[nn.Module] = []  # members before the first parameters, such as a leading Flatten
    for member in chain:
        if any(True for _ in member.parameters()):
            groups.append([*waiting, member])
            waiting = []
        elif groups:
            groups[-1].append(member)
        else:
            waiting.append(member)
    return [nn.Sequential(*group) for group in groups]


def _of_layer(layer: nn.Module, known: set[int]) -> set[int]:
    return {id(value) for value in (*layer.parameters(), *layer.buffers())} & known


def _leading(own: list[set[int]], chosen: set[int]) -> int:
    """How many leading layers hold exactly the chosen values, or -1 if they are no such thing."""
    left = set(chosen)
    for number, values in enumerate(own):
        if not left:
            return number
        if not values <= left:
            return -1
        left -= values
    return -1 if left else len(own)


def _of_norms(module: nn.Module) -> set[int]:
    norms = [member for member in module.modules() if isinstance(member, NORMS)]
    return {id(value) for norm in norms for value in (*norm.parameters(), *norm.buffers())}


def _by_prefix(learning: LearningSettings, values: list[tuple[str, Tensor]]) -> set[int]:
    prefix = learning.shared_prefix
    chosen = {id(value) for name, value in values if name.startswith(prefix)}
    if not chosen:
        raise InputError(
            f"learning.shared_prefix = {prefix!r}: no parameter of model {learning.model!r} starts so; they "
            f"are {_some_names([name for name, _ in values])}"
        )
    return chosen


def _by_patterns(learning: LearningSettings, module: nn.Module, values: list[tuple[str, Tensor]]) -> set[int]:
    names = [name for name, _ in values]
    frozen = [name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad]
    for pattern in learning.shared:
        if any(fnmatchcase(name, pattern.removeprefix(WITHOUT)) for name in names):
            continue
        if any(fnmatchcase(name, pattern.removeprefix(WITHOUT)) for name in frozen):
            raise InputError(
                f"learning.shared: {pattern!r} matches only frozen parameters of model {learning.model!r}, "
                f"which are never sent; trained are {_some_names(names)}"
            )
        raise InputError(
            f"learning.shared: {pattern!r} matches no parameter of model {learning.model!r}; they are "
            f"{_some_names(names)}"
        )
    verdicts: dict[int, tuple[str, bool]] = {}
    for name, value in values:
        verdict = is_shared(name, learning.shared)
        other, before = verdicts.setdefault(id(value), (name, verdict))
        if before != verdict:
            raise InputError(
                f"learning.shared: {other!r} and {name!r} of model {learning.model!r} are one parameter, and "
                f"the patterns share only one of them; they must share both or none"
            )
    chosen = {key for key, (_, verdict) in verdicts.items() if verdict}
    if not chosen:
        raise InputError(
            "learning.shared: nothing is left to share; for that use learning.algorithm = 'local'"
        )
    return chosen


def is_shared(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether patterns share a name: the last that matches decides.

    >>> [is_shared(f"layer1.0.{name}", ("layer1.*", "!*.bn*")) for name in ("conv1.weight", "bn1.weight")]
    [True, False]
    """
    verdict = patterns[0].startswith(WITHOUT)  # a list that begins with an exception is of exceptions to all
    for pattern in patterns:
        if fnmatchcase(name, pattern.removeprefix(WITHOUT)):
            verdict = not pattern.startswith(WITHOUT)
    return verdict


def _some_names(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown} and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else shown
