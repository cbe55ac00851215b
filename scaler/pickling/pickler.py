"""The pickler of functions, arguments and results: cloudpickle's, extended to more classes and functions.

cloudpickle loses the slots of a class that it sends by value. It sends a function with a cache (`functools.cache`,
`functools.lru_cache`) by name, which fails for functions of the main script. It cannot send a
`functools.cached_property`, which contains a lock before Python 3.12. It sends the global random generators of `random`
and NumPy with their state, for example as a part of `random.gauss`; this pickler sends them by reference, so that the
worker draws from its own. From version 3.1.3 on, cloudpickle leaves out the file name of code, which tracebacks need.
"""

from __future__ import annotations

import functools
import io
import random
import sys
from collections import ChainMap
from collections.abc import Callable
from enum import Enum
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any, ClassVar, TypeAlias

import cloudpickle

from scaler.pickling.pickled_functions import is_found_by_name

Reduced: TypeAlias = Any
"""The form in which a pickler writes an object, as `object.__reduce__` returns it, or `NotImplemented`."""

_Cached = type(functools.lru_cache(len))
_KEYWORDS = 3
"""The position of the class attributes among the arguments of the function with which cloudpickle makes a class."""

_OF_THE_CACHE = frozenset({"__wrapped__", "cache_parameters"})
"""Attributes that `functools.lru_cache` sets itself."""


def is_by_value(reduced: Reduced) -> bool:
    """Return whether cloudpickle writes a class by value, not by name. `reduced`: what cloudpickle writes for it."""
    return type(reduced) is tuple and len(reduced) == 6


def with_cache(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Callable[..., Any]:
    """Return `function` with an empty cache of its own."""
    return functools.lru_cache(maxsize, typed)(function)


def _reduced_cached(function: Any) -> Reduced:
    if is_found_by_name(function) and not _is_registered(function.__module__):
        return function.__reduce__()
    parameters = function.cache_parameters()
    attributes = {name: value for name, value in vars(function).items() if name not in _OF_THE_CACHE}
    return with_cache, (function.__wrapped__, parameters["maxsize"], parameters["typed"]), attributes or None


def is_global_generator(value: object) -> bool:
    """Return whether a value is the generator of the functions of `random` or of `numpy.random`."""
    numpy = sys.modules.get("numpy.random.mtrand")
    return value is _RANDOM or (numpy is not None and value is getattr(numpy, _NUMPYS, numpy))


def _reduced_generator(generator: Any) -> Reduced:
    if not is_global_generator(generator):
        return generator.__reduce_ex__(5)
    return getattr, (random, _PYTHONS) if generator is _RANDOM else (sys.modules["numpy.random.mtrand"], _NUMPYS)


_PYTHONS, _NUMPYS = "_inst", "_rand"
_RANDOM = getattr(random, _PYTHONS, None)


def _reduced_property(value: functools.cached_property[Any]) -> Reduced:
    return (
        functools.cached_property,
        (value.func,),
        {name: part for name, part in vars(value).items() if name != "lock"},
    )


def _is_registered(module_name: str) -> bool:
    """Return whether the user has registered a module, or its package, with cloudpickle to be pickled by value."""
    registered = cloudpickle.list_registry_pickle_by_value()
    return any(module_name == name or module_name.startswith(f"{name}.") for name in registered)


def _has_slots(cls: type) -> bool:
    """Return whether a class was defined with slots. Tuples and enums do not count: they make slots themselves."""
    return (
        "__slots__" in vars(cls)
        and not issubclass(cls, (tuple, Enum))
        and (not cls.__dictoffset__ or MemberDescriptorType in map(type, vars(cls).values()))
    )


def _reduced_code(code: CodeType) -> Reduced:
    make, arguments, *rest = _reduced_code_without_file(code)
    file = "".join(code.co_filename)  # a new string, so that the pickle does not depend on other references to it
    return make, tuple(file if part == _NO_FILE else part for part in arguments), *rest


_REDUCED: dict[type, Callable[[Any], Reduced]] = {
    _Cached: _reduced_cached,
    functools.cached_property: _reduced_property,
    random.Random: _reduced_generator,
}
_cloudpickles, *_others = cloudpickle.Pickler.dispatch_table.maps
_NO_FILE = "<dynamic-code>"
_reduced_code_without_file: Callable[[CodeType], Reduced] = _cloudpickles[CodeType]
if _NO_FILE in _reduced_code_without_file(_reduced_code.__code__)[1]:
    _REDUCED[CodeType] = _reduced_code


class _Reducers(ChainMap[type, Callable[[Any], Reduced]]):
    """The reducers of classes, in as few maps as possible, because each pickled object is looked up in the maps."""

    def __missing__(self, cls: type) -> Callable[[Any], Reduced]:
        if cls is getattr(sys.modules.get("numpy.random.mtrand"), "RandomState", None):
            return _reduced_generator
        raise KeyError(cls)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = _Reducers({**_cloudpickles, **_REDUCED}, *_others)

    def reducer_override(self, obj: Any) -> Reduced:
        cls = type(obj)
        if issubclass(cls, type):
            return self.class_reduced(obj)
        return super().reducer_override(obj) if cls is FunctionType else NotImplemented

    def class_reduced(self, cls: type) -> Reduced:
        """Return what is written for a class: what cloudpickle writes, and the slots of the class."""
        reduced = super().reducer_override(cls)
        if is_by_value(reduced) and _has_slots(cls):
            reduced[1][_KEYWORDS]["__slots__"] = vars(cls)["__slots__"]
        return reduced


Pickler: Any = _Pickler if sys.implementation.name == "cpython" else cloudpickle.Pickler
"""The class of the pickler: `_Pickler` in CPython. Other Pythons use cloudpickle's, which has other hooks there."""


def dumps(obj: Any, protocol: int = 5, buffer_callback: Any = None) -> bytes:
    """Return the pickle of an object, as `cloudpickle.dumps` does."""
    with io.BytesIO() as file:
        Pickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)
        return file.getvalue()
