"""Pickled classes: how a result refers to a class of the main script: by an id, and by a pickle for other processes.

cloudpickle would pickle such a class by value with each object, which is slow. It would also be wrong in the program
that defines the class: the object would get a copy of the class, whose methods see the globals of the worker.

Processors write results with `dumps`; reading a result calls `read_class`. A class that the reading program has defined
itself is never changed.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import cloudpickle

from scaler.pickling import pickler
from scaler.pickling.pickler import Reduced, is_by_value

_CLASSES_MOST = 256
"""The most pickles of classes that are kept."""

_cloudpickle: Any = cloudpickle.cloudpickle
_by_identity = getattr(_cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", None)
_identity_of: Callable[[type], str] | None = getattr(_cloudpickle, "_get_or_create_tracker_id", None)
"""Private parts of cloudpickle, None if missing: the table of classes by id; the function that gives classes ids."""

_PYTHONS = "_abc_impl"
"""The name of an attribute that Python itself sets, although the name has no double underscores at its ends."""

_STEADY = frozenset(
    {FunctionType, BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, classmethod, staticmethod, property}
) | {bool, bytes, complex, float, int, str, type, type(None)}


class _Written(NamedTuple):
    """The pickle of a class, and the attributes of the class from which the pickle was made."""

    reduced: Reduced
    classes: list[type]
    """the classes in the pickle: the class and its bases"""
    values: list[Any]
    """the values of the attributes of `classes`"""


_written: dict[type, _Written] = {}
_received: WeakKeyDictionary[type, bytes] = WeakKeyDictionary()
"""class of another program -> the last pickle of that class"""
_accepts_changes = False


def accept_changes() -> None:
    """Let `read_class` change a known class when another pickle of it arrives; for workers, which define no classes."""
    global _accepts_changes  # noqa: PLW0603 - like the classes, it is of the whole process
    _accepts_changes = True


def read_class(identity: str, pickled: bytes) -> type:
    """Return the class with this identity. Read it from `pickled` if this process lacks it, or has another version."""
    known: type | None = None if _by_identity is None else _by_identity.get(identity)
    if known is not None:
        last = _received.get(known)
        if last == pickled or (last is None and not _accepts_changes):
            return known
    read: type = pickle.loads(pickled)
    _received[read] = pickled
    return read


class _ResultPickler(pickler.Pickler):  # type: ignore[misc]
    """The pickler of results. It differs from the pickler of arguments only in classes that are pickled by value."""

    def class_reduced(self, cls: type) -> Reduced:
        """Return what is written for a class: its identity and its pickle, if the class is pickled by value."""
        written = _written.get(cls)
        if written is not None and _same(written.values, _values_of(written.classes)):
            return written.reduced
        reduced = super().class_reduced(cls)
        if is_by_value(reduced):
            identity, pickled = _identity_of(cls), pickler.dumps(cls)  # type: ignore[misc]
            reduced = read_class, (identity, pickled)
            if _accepts_changes:
                _received[cls] = pickled
            classes = [each for each in cls.__mro__ if is_by_value(super(_ResultPickler, self).class_reduced(each))]
            if all(_is_steady(*attribute) for each in classes for attribute in each.__dict__.items()):
                if len(_written) >= _CLASSES_MOST:
                    _written.clear()
                _written[cls] = _Written(reduced, classes, _values_of(classes))
        return reduced


def _values_of(classes: list[type]) -> list[Any]:
    return [value for each in classes for value in each.__dict__.values()]


def _is_steady(name: str, value: Any) -> bool:
    """Return whether an attribute can change only by assignment, which is true of all that Python itself sets."""
    if type(value) is tuple:
        return _STEADY.issuperset(map(type, value))
    return type(value) in _STEADY or name == _PYTHONS or (name.startswith("__") and name.endswith("__"))


def _same(left: list[Any], right: list[Any]) -> bool:
    return len(left) == len(right) and all(one is other for one, other in zip(left, right, strict=True))


def _dumps(obj: Any, protocol: int = 5, buffer_callback: Any = None) -> bytes:
    with io.BytesIO() as file:
        _ResultPickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)
        return file.getvalue()


_CAN = _by_identity is not None and _identity_of is not None and sys.implementation.name == "cpython"

dumps: Callable[..., bytes] = _dumps if _CAN else pickler.dumps
"""Return the pickle of a result. Takes the arguments of `cloudpickle.dumps`."""
