"""Generators: finds random generators that are sent with a function, because their copies would draw the same numbers.

A function is searched once, when it is pickled, for generators that are pickled with it, or are globals of modules that
workers import or inherit. The global generators of `random` and NumPy are left out, because each worker has its own.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, NamedTuple

from scaler.pickling.loaded_modules import file_of, is_installed
from scaler.pickling.pickled_functions import is_found_by_name
from scaler.pickling.pickler import is_global_generator

_NUMPYS = ("Generator", "BitGenerator", "RandomState")
"""The names of the classes of NumPy's generators, in the order in which `numpy.random` imports them."""
_VALUES_MOST = 1000
"""The most values that are checked for one function."""
_MEMBERS_MOST = 100
"""The most members of a container that are checked."""

_SEQUENCES = (list, tuple, set, frozenset, deque)
_WRAPPERS = (staticmethod, classmethod, property, functools.cached_property, type(functools.lru_cache(len)))


class FunctionPart(NamedTuple):
    """A value that a function uses, and its name for display."""

    value: Any
    name: str


def find_generator(function: Any) -> str:
    """Return the name of a random generator that is sent along with a function, for display; empty if none is found."""
    return next((name for value, name in parts_of(function) if is_generator(value)), "")


def parts_of(function: Any) -> Iterator[FunctionPart]:
    """Iterate over the values that are pickled with a function, the function first: at most `_VALUES_MOST` values."""
    parts = deque([FunctionPart(function, "the function itself")])
    seen: dict[int, object] = {}
    while parts and len(seen) < _VALUES_MOST:
        part = parts.popleft()
        if id(part.value) in seen:
            continue
        seen[id(part.value)] = part.value
        yield part
        with suppress(Exception):  # whatever the code of its class raises
            parts.extend(_parts_of(*part))


def generator_in(modules: Iterable[str]) -> str:
    """Return the name of a random generator that is a global of these loaded modules; empty if no module has one."""
    kinds = _kinds()
    found = (
        f"{module}.{name}"
        for module in modules
        for name, value in list(getattr(sys.modules.get(module), "__dict__", {}).items())
        if issubclass(type(value), kinds) and is_generator(value)
    )
    return next(found, "")


def is_generator(value: Any) -> bool:
    """Return whether a value is a random generator, or a method of a generator. Global generators do not count."""
    if type(value) in (BuiltinMethodType, MethodType):
        value = value.__self__
    if not issubclass(type(value), _kinds()) or issubclass(type(value), random.SystemRandom):
        return False
    return not is_global_generator(value)


def _kinds() -> tuple[type, ...]:
    """Return the classes of random generators, including those of NumPy if it is loaded."""
    numpy = sys.modules.get("numpy.random")
    return (random.Random,) if numpy is None or not hasattr(numpy, _NUMPYS[-1]) else _kinds_with(numpy)


@functools.cache
def _kinds_with(numpy: Any) -> tuple[type, ...]:
    return (random.Random, *(getattr(numpy, name) for name in _NUMPYS))


def _parts_of(value: Any, name: str) -> Iterator[FunctionPart]:
    kind = type(value)
    if kind is functools.partial:
        yield FunctionPart(value.func, name)
        yield from _members(
            (*value.args, *value.keywords.values()), f"an argument of the partial of {_shown(value.func)}"
        )
    elif kind is MethodType:
        yield FunctionPart(value.__func__, name)
        yield FunctionPart(value.__self__, f"the object {_shown(type(value.__self__))}")
    elif kind is FunctionType:
        yield from _parts_of_function(value)
    elif issubclass(kind, _SEQUENCES):
        yield from _members(value, f"a member of {name}")
    elif issubclass(kind, dict):
        yield from _members(dict.values(value), f"a value of {name}")
    elif issubclass(kind, _WRAPPERS):
        for attribute in ("__func__", "fget", "func", "__wrapped__"):
            yield FunctionPart(getattr(value, attribute, None), name)
    elif kind is SimpleNamespace or not (
        kind is ModuleType or _is_of_a_library(value if isinstance(value, type) else kind)
    ):
        yield from _attributes(value)


def _parts_of_function(function: FunctionType) -> Iterator[FunctionPart]:
    if _is_of_a_library(function):
        return
    shown = f"{function.__name__}()"
    yield from _members(function.__defaults__ or (), f"a default of {shown}")
    yield from _members((function.__kwdefaults__ or {}).values(), f"a default of {shown}")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the cell is empty
            yield FunctionPart(cell.cell_contents, f"{name}, which {shown} encloses")
    names = {*_names_in(function.__code__)}
    where = function.__module__
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield FunctionPart(value, f"the global {name} of {where}")
        yield from _parts_of_module(value, names)


def _parts_of_module(value: Any, names: set[str], depth: int = 3) -> Iterator[FunctionPart]:
    """Iterate over those globals of a user's module and of its submodules whose names are in `names`."""
    if type(value) is not ModuleType or _is_of_a_library(value) or not depth:
        return
    for name in names & vars(value).keys():
        yield FunctionPart(vars(value)[name], f"the global {name} of {value.__name__}")
        yield from _parts_of_module(vars(value)[name], names, depth - 1)


def _names_in(code: CodeType) -> Iterator[str]:
    """Iterate over the names of globals and attributes that a function and the functions inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names_in(constant)


def _attributes(value: Any) -> Iterator[FunctionPart]:
    """Iterate over the attributes of a user's object, and of the classes of the object."""
    cls = value if isinstance(value, type) else type(value)
    for owner in (value, *(each for each in cls.__mro__ if each is not value)):
        if owner is value or not _is_of_a_library(owner):
            found = list(getattr(owner, "__dict__", {}).items())[:_MEMBERS_MOST]
            yield from (FunctionPart(each, f"the attribute {name} of {_shown(cls)}") for name, each in found)
    members = (each for owner in cls.__mro__ for each in vars(owner).items() if type(each[1]) is MemberDescriptorType)
    for name, member in members if cls is not value else ():
        with suppress(AttributeError):  # the slot is empty
            yield FunctionPart(member.__get__(value), f"the attribute {name} of {_shown(cls)}")


def _members(values: Any, name: str) -> Iterator[FunctionPart]:
    for number, value in enumerate(values):
        if number >= _MEMBERS_MOST:
            return
        yield FunctionPart(value, name)


def _is_of_a_library(value: Any) -> bool:
    """Return whether a module, class or function belongs to Python or to an installed package."""
    name = value.__name__ if type(value) is ModuleType else getattr(value, "__module__", "")
    if not isinstance(name, str) or name in ("__main__", "__mp_main__"):
        return False
    if type(value) is FunctionType and not is_found_by_name(value):
        return False
    return not file_of(name) or is_installed(name)


def _shown(value: Any) -> str:
    return str(getattr(value, "__qualname__", "an object"))
