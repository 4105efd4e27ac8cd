"""Which devices take part in a round: one policy a file, found here by name.

A policy is a function of the round problem and a random generator that gives a `Decision`; a constructor
makes one from its options. A user's own is one function (a policy, or a constructor if it has options) and
one line, ``register("mine", function)``, or its path ``package.module:function`` instead of a name:

    def strongest(problem, rng):
        chosen = problem.channel_gain >= np.quantile(problem.channel_gain, 0.9)
        return allocate_given(problem, chosen, "strongest")
"""

import functools
import inspect
import typing
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from pmafl.errors import InputError
from pmafl.plugins import blaming, load_object
from pmafl.scheduling.checking import ask
from pmafl.scheduling.decision import Decision, Policy
from pmafl.scheduling.dual import dual
from pmafl.scheduling.everyone import choose_everyone, everyone
from pmafl.scheduling.exhaustive import exhaustive
from pmafl.scheduling.given import allocate_given, allocate_without_limits
from pmafl.scheduling.ocean import ocean
from pmafl.scheduling.rs_wel import rs_wel
from pmafl.scheduling.set_expansion import set_expansion
from pmafl.scheduling.steady import steady
from pmafl.scheduling.uniform import choose_uniformly, uniform
from pmafl.wireless.problem import Index

__all__ = [
    "Decision",
    "Policy",
    "allocate_given",
    "ask",
    "find_policy",
    "find_unlimited_policy",
    "names",
    "register",
]

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "set-expansion": set_expansion,
    "dual": dual,
    "steady": steady,
    "exhaustive": exhaustive,
    "ocean": ocean,
    "rs-wel": rs_wel,
    "uniform": uniform,
    "all": everyone,
}
# Those that choose without looking at the radio.
_CHOICES: dict[str, Callable[..., Index]] = {"uniform": choose_uniformly, "all": choose_everyone}


def register(name: str, function: Callable[..., Any]) -> None:
    """Makes a policy, or a constructor of one, available by name, in settings and on the command line."""
    _FUNCTIONS[name] = function


def names() -> list[str]:
    """Names of all policies."""
    return list(_FUNCTIONS)


def find_policy(name: str, **options: Any) -> Policy:
    """The policy called `name`, or at the path ``package.module:function``, with its options."""
    if ":" in name:
        function = load_object(name, "policy")
    elif name in _FUNCTIONS:
        function = _FUNCTIONS[name]
    else:
        choices = ", ".join(names())
        raise InputError(f"there is no policy {name!r}; choose {choices} or package.module:function")
    if not callable(function):
        raise InputError(f"policy {name!r} is a {type(function).__name__}; it must be a function")
    is_policy = _accepts(function, "problem", "rng", **options) and not _accepts(function, **options)
    if not is_policy:
        _check_names(name, function, options)
    _check_types(name, function, options)
    if is_policy:
        return functools.partial(function, **options) if options else function
    with blaming(f"policy {name!r}"):
        made: Policy = function(**options)
        if not callable(made):
            kind = type(made).__name__
            raise InputError(f"made a {kind}; it must make a function of the problem and a random generator")
    return made


def find_unlimited_policy(name: str, **options: Any) -> Policy:
    """The policy where radio and energy have no limits (the paper's Section V-B): it only chooses."""
    if name not in _CHOICES:
        raise InputError(f"policy {name!r} needs the radio; without it choose {' or '.join(_CHOICES)}")
    _check_names(name, _FUNCTIONS[name], options)
    _check_types(name, _FUNCTIONS[name], options)
    return allocate_without_limits(name, functools.partial(_CHOICES[name], **options))


def _accepts(function: Callable[..., Any], *arguments: Any, **options: Any) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **options)
    except (TypeError, ValueError):  # it does not fit, or has no signature, as some functions written in C
        return False
    return True


def _check_names(name: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
    if not _accepts(function, **options):
        try:
            known = ", ".join(inspect.signature(function).parameters) or "none"
        except ValueError:
            raise InputError(f"policy {name!r} is {function!r}; it must be a function in Python") from None
        given = ", ".join(options) or "none"
        raise InputError(f"policy {name!r} was given the options {given}; it has {known}")


# What an option may be where its parameter is annotated, and the words for it.
_TYPES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (lambda value: isinstance(value, Integral) and not isinstance(value, bool), "a whole number"),
    float: (lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number"),
    str: (lambda value: isinstance(value, str), "a word"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
}


def _check_types(name: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
    try:
        annotated = typing.get_type_hints(function)
    except Exception:  # a stranger's annotations need not mean anything here
        return
    for option, value in options.items():
        fits, words = _TYPES.get(annotated.get(option), (lambda _: True, ""))
        if not fits(value):
            raise InputError(f"option {option} of policy {name!r} is {value!r:.60}; it must be {words}")
