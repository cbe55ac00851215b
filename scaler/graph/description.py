"""Description: reads and checks a user's graph: which keys are calls, and which results each call needs.

    {"a": 1, "b": (inc, "a"), "c": (add, "b", "b")}  -->  calls b, c;  b needs nothing, c needs b
                 data          calls

Finds all mistakes in a graph before anything is sent, and calls no user code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from scaler.texts import shown

Call = tuple[Any, ...]
"""A function, followed by its arguments."""

_CONTAINERS = frozenset({list, tuple, set, frozenset, dict})


class Description(NamedTuple):
    """A graph with its calls numbered from 0.

    Attributes:
        calls: function and arguments of each call.
        numbers: key of a call -> number of the call, in the order of the numbers.
        counts: for each call, the number of arguments that are results of other calls.
        dependencies: the numbers of the calls that each call needs, one call after the other; with repetitions.
        wanted: the wanted keys, in the order of the user.
        in_lists: key of a call with a list argument that contains a key of the graph -> the position of the first such
            argument, from 1, and the contained key. Contained keys are not replaced by values.
    """

    calls: list[Call]
    numbers: dict[str, int]
    counts: list[int]
    dependencies: list[int]
    wanted: list[str]
    in_lists: dict[str, tuple[int, str]]


def is_call(value: Any) -> bool:
    """Return whether a value of a graph is a call: a tuple whose first item is callable."""
    return type(value) is tuple and len(value) > 0 and callable(value[0])


def read(graph: Mapping[str, Any], keys: Iterable[str]) -> Description:
    """Return the checked description of `graph`.

    Raises:
        KeyError: if a wanted key or an argument is not in the graph, or a key is wanted twice.
        TypeError: if `graph` is not a mapping, a key is not a `str`, or an argument of a call is or contains a call.
    """
    if not isinstance(graph, Mapping):
        raise TypeError(f"a graph must be a dict, not {type(graph).__name__}")
    wanted = _wanted(graph, keys)
    calls: list[Call] = []
    numbers: dict[str, int] = {}
    for key, value in graph.items():
        if not isinstance(key, str):
            raise TypeError(f"the keys of a graph must be str, not {shown(key)}")
        if type(value) is tuple and value and callable(value[0]):
            numbers[key] = len(calls)
            calls.append(value)
    counts: list[int] = []
    dependencies: list[int] = []
    in_lists: dict[str, tuple[int, str]] = {}
    for key, call in zip(numbers, calls, strict=True):
        before = len(dependencies)
        if _read_arguments(key, call, graph, numbers, dependencies) and (found := _key_in_list(call, graph)):
            in_lists[key] = found
        counts.append(len(dependencies) - before)
    return Description(calls, numbers, counts, dependencies, wanted, in_lists)


def _read_arguments(
    key: str, call: Call, graph: Mapping[str, Any], numbers: Mapping[str, int], dependencies: list[int]
) -> bool:
    """Add to `dependencies` the numbers of the calls that `call` needs. Return whether an argument is a list."""
    has_list = False
    for argument in islice(call, 1, None):
        if isinstance(argument, str):
            number = numbers.get(argument)
            if number is not None:
                dependencies.append(number)
            elif argument not in graph:
                raise KeyError(
                    f"the node {key!r} needs {argument!r}, which is not in the graph: a str argument is a key; give "
                    "a text a key of its own"
                )
        elif is_call(argument):
            raise TypeError(f"the node {key!r} has a call among its arguments: give {shown(argument)} a key of its own")
        elif type(argument) in _CONTAINERS:
            has_list |= type(argument) is list
            _refuse_calls_inside(key, argument)
    return has_list


def _key_in_list(call: Call, graph: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return the position of the first list argument with a key of the graph, maybe in an inner list, and that key."""
    for position, argument in enumerate(call):
        if type(argument) is list and (found := _key_among(argument, graph, 1)):
            return position, found
    return None


def _key_among(values: list[Any], graph: Mapping[str, Any], levels: int) -> str:
    """Return the first key of the graph in `values`, or in `levels` levels of inner lists; "" if no value is a key."""
    for value in values:
        kind = type(value)
        if kind is str and value in graph:
            return str(value)
        if kind is list and levels and (found := _key_among(value, graph, levels - 1)):
            return found
    return ""


def _refuse_calls_inside(key: str, container: Any) -> None:
    for value in container.values() if type(container) is dict else container:
        if type(value) is tuple and is_call(value):
            raise TypeError(
                f"the node {key!r} has a call inside a {type(container).__name__}, which would not be called: give "
                f"{shown(value)} a key of its own, and make its result an argument of the node"
            )


def _wanted(graph: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys must be a list of keys, not the single str {keys!r}")
    wanted = list(keys)
    seen: set[str] = set()
    for key in wanted:
        if key not in graph:
            raise KeyError(f"the key {shown(key)} is not in the graph")
        if key in seen:
            raise KeyError(f"the key {shown(key)} is requested twice")
        seen.add(key)
    return wanted
