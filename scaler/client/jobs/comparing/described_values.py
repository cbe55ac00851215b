"""Descriptions of Python values: known classes have a handler here, other values are described by their pickled form.

A value of an unknown class is accessed only through the methods that pickling it calls.
"""

from __future__ import annotations

import array
import collections
import contextvars
import copyreg
import datetime as dt
import decimal
import fractions
import functools
import io
import logging
import os
import pathlib
import random
import struct
import sys
import threading
import types
import uuid
import weakref
from collections.abc import Hashable, Iterator
from enum import Enum
from itertools import chain
from typing import Any, cast

from scaler.client.jobs.comparing.shapes import (
    PLAIN,
    Attributes,
    Handler,
    Leaf,
    Scope,
    Shape,
    attributes_of,
    in_order,
    name_of,
)
from scaler.client.object_reference import ObjectReference, ReferenceAsIs
from scaler.errors import class_name
from scaler.pickling.pickler import is_global_generator

_MICROSECONDS = dt.timedelta(microseconds=1)


def _moment(value: dt.datetime | dt.time) -> tuple[Any, ...] | None:
    return (type(value).__name__, value.isoformat(), value.fold) if value.tzinfo is None else None


LEAVES: dict[type, Leaf] = {
    type(...): lambda _: ("...",),
    dt.date: lambda value: ("date", value.toordinal()),
    dt.timedelta: lambda value: ("timedelta", value // _MICROSECONDS),
    dt.datetime: _moment,
    dt.time: _moment,
    decimal.Decimal: lambda value: ("Decimal", str(value)),
    fractions.Fraction: lambda value: ("Fraction", value.numerator, value.denominator),
    uuid.UUID: lambda value: ("UUID", value.int),
    range: lambda value: ("range", value.start, value.stop, value.step),
    bytearray: lambda value: ("bytearray", bytes(value)),
    struct.Struct: lambda value: ("Struct", value.format),
    array.array: lambda value: ("array", value.typecode, value.tobytes()),
    **dict.fromkeys(
        (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())),
        lambda value: ("path", type(value).__name__, str(value)),
    ),
}
"""Class -> the `Leaf` that describes its values."""


def _sequence(value: Any, _scope: Scope) -> Shape:
    return Shape(type(value).__name__, value)


def _dict(value: Any, _scope: Scope) -> Shape:
    return Shape("dict", chain.from_iterable(value.items()))


def _set(value: Any, _scope: Scope) -> Shape:
    # Parts of cycles refer to each other in this order. In sets, such parts are mostly classes and functions.
    names = {id(each): name_of(each) if isinstance(each, (type, types.FunctionType)) else "" for each in value}
    parts = sorted(value, key=lambda each: names[id(each)])
    n_unnamed = sum(1 for each in parts if not names[id(each)] and type(each) not in PLAIN)
    return Shape(type(value).__name__, parts, is_set=True, n_unnamed=n_unnamed)


def _set_of_a_class(value: Any, _scope: Scope) -> Shape:
    base = frozenset if isinstance(value, frozenset) else set
    return Shape("set of a class", (type(value), base(value), Attributes(getattr(value, "__dict__", {}))))


def _moment_of_zone(value: dt.datetime | dt.time, _scope: Scope) -> Shape:
    return Shape(_moment(value.replace(tzinfo=None)), (value.tzinfo,))


def _slice(value: Any, _scope: Scope) -> Shape:
    return Shape("slice", (value.start, value.stop, value.step))


def _memoryview(value: Any, _scope: Scope) -> Shape:
    return Shape(("memoryview", value.format, value.shape, value.tobytes()))


def _enum(value: Any, _scope: Scope) -> Shape:
    return Shape(("enum", value._name_), (type(value), value._value_))


def _attributes(value: Attributes, _scope: Scope) -> Shape:
    return Shape("attributes", in_order(value.values))


def _view(value: Any, _scope: Scope) -> Shape:
    return Shape(type(value).__name__, list(value))


def _mapping_proxy(value: Any, _scope: Scope) -> Shape:
    return Shape("mappingproxy", chain.from_iterable(value.items()))


def _weak(value: Any, _scope: Scope) -> Shape:
    return Shape("weak reference", (value(),))


def _logger(value: Any, _scope: Scope) -> Shape:
    return Shape(("logger", value.name))


def _variable(value: Any, _scope: Scope) -> Shape:
    return Shape(("context variable", value.name))


def _reference(value: ObjectReference, scope: Scope) -> Shape:
    if scope.content_of is None:
        raise TypeError("the content of this reference is unknown")
    return Shape(("reference", scope.content_of(value)))


def _reference_as_is(value: Any, _scope: Scope) -> Shape:
    return Shape("reference as it is", (value._reference,))  # noqa: SLF001 - it has no other owner


def _random(value: Any, scope: Scope) -> Shape:
    """Describe a random generator by its state. A global one, which each process seeds, is described by its class."""
    if scope.is_verifying or is_global_generator(value):
        return Shape(("global", class_name(type(value))))
    return _object(value, scope)


def _stream(value: Any, scope: Scope) -> Shape:
    for name in ("stdin", "stdout", "stderr"):
        if value in {getattr(sys, name), getattr(sys, f"__{name}__")}:
            return Shape(("global", name))
    return _object(value, scope)


def _by_class(value: Any, _scope: Scope) -> Shape:
    return Shape(("of a class", class_name(type(value))))


def _object(value: Any, _scope: Scope) -> Shape:
    """Describe an object by its pickled form. Raises what the methods of its class raise."""
    kind = type(value)
    reduce = copyreg.dispatch_table.get(kind)
    reduced: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
    if isinstance(reduced, str):
        return Shape(("global", str(getattr(value, "__module__", "")), reduced))
    function, arguments, state, *rest = reduced if len(reduced) > 2 else (*reduced, None)
    defines_pickling = reduce is not None or not _is_default(cast("Hashable", kind))
    if function is _NEW and len(arguments) == 1 and type(state) is dict and not any(rest):
        return Shape("plain object", chain((kind,), in_order(state)), defines_pickling=defines_pickling)
    return Shape(
        "object", _parts(kind, function, arguments, attributes_of(state), *rest), defines_pickling=defines_pickling
    )


_NEW = copyreg.__newobj__  # type: ignore[attr-defined]


def _parts(
    kind: type, function: Any, arguments: Any, state: Any, items: Any = None, pairs: Any = None, setter: Any = None
) -> Iterator[Any]:
    yield from (kind, function, arguments, state, setter)
    yield from items or ()
    for pair in pairs or ():
        yield "pair"
        yield from pair


_DEFAULTS = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")


@functools.lru_cache(1024)
def _is_default(kind: Hashable) -> bool:
    return all(getattr(kind, name, None) is getattr(object, name, None) for name in _DEFAULTS)


_BY_CLASS = ("threading", "_thread", "asyncio.locks", "multiprocessing.synchronize", "scaler.client.client",
             "scaler.client.caller", "scaler.client.aio.client", "scaler.client.aio.caller")  # fmt: skip
"""Modules that define locks and clients. Values of the classes in these modules are described by class only."""

_OF_PROCESSES = (threading.Thread, threading.local, random.SystemRandom, type(os.environ))
"""Classes whose values belong to one process; described by their class only."""

_FIELD = "_ctypes.CField"
"""The class of the attributes that ctypes derives from `_fields_`."""

_CACHES = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
"""Weak containers. Their contents are not compared: they are described by their class only."""

_HANDLERS: dict[type, Handler] = {
    tuple: _sequence,
    list: _sequence,
    dict: _dict,
    set: _set,
    frozenset: _set,
    dt.datetime: _moment_of_zone,
    dt.time: _moment_of_zone,
    slice: _slice,
    memoryview: _memoryview,
    Attributes: _attributes,
    types.MappingProxyType: _mapping_proxy,
    **dict.fromkeys((type({}.keys()), type({}.values()), type({}.items())), _view),
    **dict.fromkeys((type(collections.OrderedDict().keys()), type(collections.OrderedDict().values())), _view),
    weakref.ReferenceType: _weak,
    contextvars.ContextVar: _variable,
    random.Random: _random,
    io.TextIOWrapper: _stream,
    ObjectReference: _reference,
    ReferenceAsIs: _reference_as_is,
}


_DERIVED: tuple[tuple[type | tuple[type, ...], Handler], ...] = (
    (Enum, _enum),
    (logging.Logger, _logger),
    ((set, frozenset), _set_of_a_class),
    ((*_CACHES, *_OF_PROCESSES), _by_class),
)


def handler_of(kind: type) -> Handler:
    """Return the handler of any class."""
    known = _HANDLERS.get(kind) or next((each for classes, each in _DERIVED if issubclass(kind, classes)), None)
    if known is not None:
        return known
    if class_name(kind) == "numpy.random.mtrand.RandomState":
        return _random
    return _by_class if kind.__module__ in _BY_CLASS or class_name(kind) == _FIELD else _object
