"""Shapes: what a value consists of, as `description` walks through it.

Must never: know a kind of values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, TypeAlias

from scaler.client.object_reference import ObjectReference
from scaler.pickling import loaded

PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Classes whose values marshal writes in the same way in each process."""

MAIN = ("__main__", "__mp_main__")


class Shape(NamedTuple):
    """The parts of a value."""

    head: Any
    """which kind of value it is: plain, or a tuple of plain values"""
    parts: Iterable[Any] = ()
    is_set: bool = False
    """whether its parts have no order"""
    n_unnamed: int = 0
    """of a set: how many of its parts have no name to be sorted by"""
    is_code: bool = False
    """whether it is a class or a function of the program"""
    is_large: bool = False
    """whether it costs more than to remember it"""
    says_itself: bool = False
    """whether its parts are what code of its class says"""
    trouble: str = ""
    """what of it cannot be compared"""


class Scope:
    """What a description depends on beside the value.

    Args:
        own_modules: the modules that travel.
        content_of: returns the hash of the object of a reference.
        is_verifying: whether a value is compared with its copy, which is not what a process has once.
    """

    def __init__(
        self,
        own_modules: Collection[str],
        content_of: Callable[[ObjectReference], bytes] | None,
        is_verifying: bool = False,
    ) -> None:
        self.own_modules, self.content_of, self.is_verifying = own_modules, content_of, is_verifying
        self._tops = {each.partition(".")[0] for each in own_modules}
        self._are_own: dict[str, bool] = {}

    def is_own(self, module: Any) -> bool:
        """Return whether a module is one of the user's program: what it has counts by its code."""
        name = str(module)
        if name not in self._are_own:
            self._are_own[name] = (
                name in MAIN
                or name.partition(".")[0] in self._tops
                or name not in sys.modules
                or (loaded.file_of(name) != "" and not loaded.is_installed(name))
            )
        return self._are_own[name]


Handler: TypeAlias = Callable[[Any, Scope], Shape]

Leaf: TypeAlias = Callable[[Any], "tuple[Any, ...] | None"]
"""Returns what stands for a value: plain values; None if it has parts."""


def name_of(value: Any) -> str:
    """Return the name of a class or function with its module, unless that is the script."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__
    return str(name) if module in MAIN or module is None else f"{module}.{name}"


class Attributes:
    """The attributes of an object. Their order does not count."""

    __slots__ = ("values",)

    def __init__(self, values: dict[Any, Any]) -> None:
        self.values = values


def attributes_of(values: Any) -> Any:
    """Return the state of an object, with its attributes apart from dicts that it has."""
    if type(values) is dict:
        return Attributes(values)
    if type(values) is tuple and len(values) == 2:  # of a class with slots
        return tuple(Attributes(each) if type(each) is dict else each for each in values)
    return values


def in_order(values: dict[Any, Any]) -> Iterable[Any]:
    """Go through names and attributes in the order of the names."""
    names = [*values]
    if all(type(each) is str for each in names):
        names.sort()
    for each in names:
        yield each
        yield values[each]
