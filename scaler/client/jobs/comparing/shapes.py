"""Shapes: the head and the parts into which a value of any class is split, for `description` to traverse."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from scaler.client.jobs.comparing.module_sources import ModuleSources
from scaler.client.object_reference import ObjectReference
from scaler.pickling import loaded_modules

PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Classes whose values marshal serialises to the same bytes in each process."""

MAIN = ("__main__", "__mp_main__")


class Shape(NamedTuple):
    """A value, split into a head and parts."""

    head: Any
    """the kind of the value: a plain value, or a tuple of plain values"""
    parts: Iterable[Any] = ()
    is_set: bool = False
    n_unnamed: int = 0
    """in a set: the number of parts without a name to sort by"""
    is_code: bool = False
    """whether the value is a class or a function of the program"""
    is_large: bool = False
    defines_pickling: bool = False
    """whether the class of the value defines how the value is pickled, and so which parts it has"""
    trouble: str = ""
    """the part of the value that cannot be compared; empty if all parts can"""


class Scope:
    """The context of a description, besides the value.

    Args:
        own_modules: the modules that travel with the function, with their sources if it is a mapping.
        content_of: returns the hash of the object that a reference refers to.
        is_verifying: whether the value is compared with a copy of itself. Random generators are then described by
            class.
    """

    def __init__(
        self,
        own_modules: Collection[str],
        content_of: Callable[[ObjectReference], bytes] | None,
        is_verifying: bool = False,
    ) -> None:
        self.own_modules, self.content_of, self.is_verifying = own_modules, content_of, is_verifying
        self.sources = ModuleSources(own_modules if isinstance(own_modules, Mapping) else {})
        self._tops = {each.partition(".")[0] for each in own_modules}
        self._are_own: dict[str, bool] = {}

    def is_own(self, module: Any) -> bool:
        """Return whether a module belongs to the program, so that its functions and classes are compared by code."""
        name = str(module)
        if name not in self._are_own:
            self._are_own[name] = (
                name in MAIN
                or name.partition(".")[0] in self._tops
                or name not in sys.modules
                or (loaded_modules.file_of(name) != "" and not loaded_modules.is_installed(name))
            )
        return self._are_own[name]


Handler: TypeAlias = Callable[[Any, Scope], Shape]

Leaf: TypeAlias = Callable[[Any], "tuple[Any, ...] | None"]
"""A function that describes a value by a tuple of plain values. It returns None if the value has parts."""


def name_of(value: Any) -> str:
    """Return the name of a class or function, with its module unless that is the main script."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__
    return str(name) if module in MAIN or module is None else f"{module}.{name}"


class Attributes:
    """The attributes of an object, compared without their order."""

    __slots__ = ("values",)

    def __init__(self, values: dict[Any, Any]) -> None:
        self.values = values


def attributes_of(values: Any) -> Any:
    """Return the state of an object. Its dict of attributes becomes `Attributes`; dicts among the values stay dicts."""
    if type(values) is dict:
        return Attributes(values)
    if type(values) is tuple and len(values) == 2:  # of a class with slots
        return tuple(Attributes(each) if type(each) is dict else each for each in values)
    return values


def in_order(values: dict[Any, Any]) -> Iterable[Any]:
    """Iterate over names and attributes, alternately, in the order of the names."""
    names = [*values]
    if all(type(each) is str for each in names):
        names.sort()
    for each in names:
        yield each
        yield values[each]
