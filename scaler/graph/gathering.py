"""GatheringCall: takes futures and references out of containers among a call's arguments, and puts their values back.

The client takes them out of lists, tuples, sets and dictionaries; each becomes an argument. On the worker,
`GatheringCall` puts their values into copies of the containers, and calls the user's function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from scaler.texts import shown


class ArgumentPlace(int):
    """A placeholder for a value of a call: the number of the value."""


class GatheringCall:
    """Puts values into the containers among its arguments, and calls a function with them, on the worker.

    Args:
        function: the function of the user.
        name: the name of the function for people.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.__qualname__ = name

    def __call__(self, positional: list[Any], keywords: dict[str, Any], /, *arguments: Any) -> Any:
        args = [_filled(each, arguments) for each in positional]
        kwargs = {name: _filled(each, arguments) for name, each in keywords.items()}
        return self.function(*args, **kwargs)


class SeparatedArguments(NamedTuple):
    """The arguments of a call, separated from their containers.

    Attributes:
        positional, keywords: the arguments; each is a placeholder, or a container with placeholders.
        arguments: the values for the placeholders.
        labels: the name of each value in errors, such as "argument 1[0]".
    """

    positional: list[Any]
    keywords: dict[str, Any]
    arguments: list[Any]
    labels: list[str]

    @property
    def is_needed(self) -> bool:
        """Whether any value was inside a container."""
        return any(type(each) is not ArgumentPlace for each in (*self.positional, *self.keywords.values()))

    @property
    def sent(self) -> list[Any]:
        """The arguments with which `GatheringCall` is called."""
        return [self.positional, self.keywords, *self.arguments]

    @property
    def labels_sent(self) -> list[str]:
        """The names that errors use for the arguments in `sent`."""
        return ["the arguments", "the arguments", *self.labels]


Wanted: TypeAlias = type | tuple[type, ...]


def separate_arguments(args: Sequence[Any], kwargs: Mapping[str, Any], wanted: Wanted) -> SeparatedArguments:
    """Take values of the classes `wanted` out of the lists, tuples, sets and dictionaries among a call's arguments.

    Values in other containers, and keys of dictionaries, stay.
    """
    separated = SeparatedArguments([], {}, [], [])
    for number, argument in enumerate(args, start=1):
        separated.positional.append(_argument(argument, f"argument {number}", wanted, separated))
    for name, argument in kwargs.items():
        separated.keywords[name] = _argument(argument, f"the argument {name!r}", wanted, separated)
    return separated


def _argument(value: Any, label: str, wanted: Wanted, separated: SeparatedArguments) -> Any:
    if isinstance(value, wanted) or not has_inside(value, wanted):
        return _hole(value, label, separated)
    return _with_holes(value, label, wanted, separated)


def _hole(value: Any, label: str, separated: SeparatedArguments) -> ArgumentPlace:
    separated.arguments.append(value)
    separated.labels.append(label)
    return ArgumentPlace(len(separated.arguments) - 1)


def _with_holes(value: Any, label: str, wanted: Wanted, separated: SeparatedArguments) -> Any:
    if isinstance(value, wanted):
        return _hole(value, label, separated)
    if type(value) is dict:
        return {key: _with_holes(each, f"{label}[{_cut(key)}]", wanted, separated) for key, each in value.items()}
    if type(value) in _ROWS:
        return type(value)(_with_holes(each, f"{label}[{n}]", wanted, separated) for n, each in enumerate(value))
    return value


def has_inside(value: Any, wanted: Wanted) -> bool:
    """Return whether a container, or a container inside it, holds a value of this class."""
    return next(_inside(value, wanted, frozenset()), None) is not None


def _inside(value: Any, wanted: Wanted, outer: frozenset[int]) -> Iterator[Any]:
    if id(value) in outer:  # a list that holds itself
        return
    members = value.values() if type(value) is dict else value if type(value) in _ROWS else ()
    for each in members:
        if isinstance(each, wanted):
            yield each
        elif type(each) in _CONTAINERS:
            yield from _inside(each, wanted, outer | {id(value)})


def _filled(value: Any, arguments: Sequence[Any]) -> Any:
    if type(value) is ArgumentPlace:
        return arguments[value]
    if type(value) is dict:
        return {key: _filled(each, arguments) for key, each in value.items()}
    if type(value) in _ROWS:
        return type(value)(_filled(each, arguments) for each in value)
    return value


def _cut(key: Any) -> str:
    text = shown(key)
    return text if len(text) <= 40 else "..."


_ROWS = frozenset({list, tuple, set, frozenset})
_CONTAINERS = _ROWS | {dict}


def identity(value: Any) -> Any:
    """Return `value`. A graph calls this function if a client wants the value of a stored object and lacks it."""
    return value
