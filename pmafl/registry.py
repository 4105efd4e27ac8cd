"""One table of names for each kind of thing that a stranger may add, such as policies and channels.

An entry is found by its name or at its path ``package.module:name``. Most entries are makers: called with
what the program gives and the user's options they give the thing itself, and the options are checked against
the maker's signature before a run.
"""

import difflib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pmafl.errors import InputError
from pmafl.plugins import blaming, load_object

Entry = TypeVar("Entry")
# Of pydantic's types, in the words that the rest of the program uses.
_RULES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be a word",
    "bool_type": "must be true or false",
}


class Registry(Mapping[str, Entry]):
    """Entries of one kind by name.

    >>> shapes = Registry[int]("shape", "drawing.shape", {"triangle": 3, "square": 4})
    >>> shapes.find("square")
    4
    >>> shapes.find("squar")
    Traceback (most recent call last):
    pmafl.errors.InputError: drawing.shape = 'squar': there is no such shape; did you mean 'square'?
    """

    def __init__(
        self, kind: str, setting: str, entries: Mapping[str, Entry], other: str = "package.module:name"
    ) -> None:
        """`kind` is what an entry is called, `setting` the key that names one, `other` what it takes too."""
        self.kind, self.setting, self._other = kind, setting, other
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def names(self) -> list[str]:
        """All names, in the order of their registration."""
        return list(self._entries)

    def register(self, name: str, entry: Entry) -> None:
        """Make an entry available by a name of its own."""
        if name in self._entries:
            raise InputError(f"there is a {self.kind} called {name!r} already; choose another name")
        if ":" in name or not name:
            raise InputError(f"{name!r} cannot be the name of a {self.kind}; use letters, digits and dashes")
        self._entries[name] = entry

    def find(self, name: str) -> Entry:
        """The entry called `name`, or the object at ``package.module:name``."""
        if name in self._entries:
            return self._entries[name]
        if ":" in name:
            return self._elsewhere(name)
        near = difflib.get_close_matches(name, self._entries, n=1)
        advice = f"did you mean {near[0]!r}?" if near else self._choices()
        raise InputError(f"{self.setting} = {name!r}: there is no such {self.kind}; {advice}")

    def _elsewhere(self, path: str) -> Entry:
        """The object at a path; whoever forgot the value of an option is told so."""
        try:
            found: Entry = load_object(path, self.setting)
        except InputError:
            name, _, option = path.partition(":")
            if name not in self._entries:
                raise
            raise InputError(
                f"{self.setting} = {path!r:.80}: {option!r:.40} has no value; an option is given as in "
                f"{name}:option=value"
            ) from None
        return found

    def _choices(self) -> str:
        return f"choose {', '.join(self._entries)} or {self._other}"


def make(maker: Callable[..., Any], what: str, given: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Calls a maker with what the program gives and the user's options; `what` names it in errors."""
    if not callable(maker):
        raise InputError(f"{what} is a {type(maker).__name__}; it must be a function")
    check_options(maker, what, len(given), options)
    with blaming(what):
        return maker(*given, **options)


def check_options(maker: Callable[..., Any], what: str, given: int, options: Mapping[str, Any]) -> None:
    """Refuse options that the maker does not have, lacks, or has with another type."""
    try:
        signature = inspect.signature(maker)
    except ValueError:  # some of Python's own
        raise InputError(f"{what} does not say what its options are; it must be a function") from None
    parameters = list(signature.parameters.values())[given:]
    try:
        signature.bind(*range(given), **options)
    except TypeError:
        known = {parameter.name: parameter for parameter in parameters}
        missing = [name for name, one in known.items() if one.default is one.empty and name not in options]
        if missing and options.keys() <= known.keys():
            raise InputError(f"{what} needs the options {', '.join(missing)}") from None
        wrong = [name for name in options if name not in known]
        raise InputError(
            f"{what} was given the options {', '.join(wrong) or 'none'}; it has {', '.join(known) or 'none'}"
        ) from None
    hints = _type_hints(maker)
    for name, value in options.items():
        if name in hints:
            _check_type(f"{what}, option {name} = {value!r:.60}", value, hints[name])


def _type_hints(maker: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(maker.__init__ if inspect.isclass(maker) else maker)
    except Exception:  # names that exist for a type checker only: then nothing is known of the types
        return {}


def _check_type(what: str, value: Any, expected: Any) -> None:
    adapter = TypeAdapter(expected)
    with suppress(ValidationError):
        adapter.validate_python(value, strict=True)
        return
    try:  # a list of the user's is a tuple in the settings, which nobody may change
        adapter.validate_python(_with_lists(value), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        rule = _RULES.get(first["type"]) or first["msg"].replace("Input should be", "must be")
        raise InputError(f"{what}: {rule}") from None


def _with_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, list | tuple) else value
