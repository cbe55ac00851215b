"""Culprits: after a failure, finds the part of a value that cannot be serialised, or the code that could not read it.

Used for error messages only. The search takes bounded time. If a part fails, the search continues with the parts of
this part, down to the innermost one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from traceback import walk_tb
from types import FrameType, FunctionType, MethodType
from typing import Any, TypeAlias

from scaler.errors import class_name
from scaler.interruptions import is_interruption
from scaler.pickling.pickler import Pickler
from scaler.texts import described, shown

SEARCH_SECONDS = 0.25
"""The CPU time after which the search ends. The end is later if the code of a searched value takes longer."""

DEPTH_MOST = 16
"""The greatest depth of the search. Longer paths would not help a reader."""

_READERS = frozenset({"_frozen_importlib", "cloudpickle", "copyreg", "importlib", "pickle", "scaler"})
"""The packages that unpickle values. An error message names only functions outside of these packages."""

_STEADY = frozenset({int, float, complex, str, bytes, bool, type(None)})
"""The types whose values can always be serialised. Values of derived classes may contain anything."""

PARTS_MOST = 100_000
"""The most parts of one value that are checked."""

ALONE_MOST = 16
"""The most parts of a value that are serialised one by one. A longer list of parts is halved until it is no longer."""

_Part: TypeAlias = tuple[str, object, object]
"""A part of a value: the form of its name, such as `[{}]`; the key that fills the placeholder; and the part itself."""


def culprit_in(value: object, seconds: float = SEARCH_SECONDS) -> str:
    """Return which part of a value cannot be serialised, as in `[3]['lock'] (_thread.lock)`.

    Return "" if the culprit is the value itself, or if no part was found within `seconds` of CPU time.
    """
    try:
        found = _Search(time.thread_time() + seconds).inside(value, "")
        return f"{found[0]} ({class_name(type(found[1]))})" if found and found[0] else ""
    except BaseException as error:  # code of any class runs here
        if is_interruption(error):
            raise
        return ""


def why_unreadable(error: BaseException) -> str:
    """Return why a value could not be read: the exception, and the class or function whose code raised it."""
    text = described(error)
    for frame, _ in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in _READERS:
            return f"{text}, in {_called(frame, module)}"
    return text


def _called(frame: FrameType, module: str) -> str:
    """Return the full name of the function that a frame executes, with a hint about constructors of exceptions."""
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    kind = type(first)
    if not any(code is getattr(vars(base).get(code.co_name), "__code__", None) for base in kind.__mro__):
        return f"{module}.{code.co_name}"
    name = class_name(kind)
    if not issubclass(kind, BaseException) or code.co_name != "__init__":
        return f"{name}.{code.co_name}"
    return (
        f"{name}.__init__; Python reads an exception by calling {kind.__name__}(*args): pass to super().__init__ what "
        "__init__ takes, or define __reduce__"
    )


class _OutOfTimeError(Exception):
    """The search has used up its CPU time."""


class _Search:
    """A search for the part that cannot be serialised. It is also the file that the picklers of the search write to."""

    def __init__(self, end: float) -> None:
        self._end = end
        self._seen: dict[int, object] = {}
        """values whose parts were searched, kept alive so that no other object gets their ids"""

    def write(self, data: object) -> None:
        """Discard what a pickler has written, and raise `_OutOfTimeError` if the search has used up its time."""
        del data
        if time.thread_time() > self._end:
            raise _OutOfTimeError

    def inside(self, value: object, path: str, depth: int = 0) -> tuple[str, object] | None:
        """Return path and value of the innermost part that cannot be serialised, as far as time and depth allow.

        Return None if all parts that fail lead back to values that were searched before.
        """
        self._seen[id(value)] = value
        leads_back = False
        try:
            for text, key, part in self._from_first_failing(
                list(islice(_parts(value), PARTS_MOST if depth < DEPTH_MOST else 0))
            ):
                if id(part) not in self._seen:
                    if not self._fails(part):
                        continue
                    found = self.inside(part, _extended(path, text, key), depth + 1)
                    if found is not None:
                        return found
                leads_back = True
        except _OutOfTimeError:
            leads_back = False
        return None if leads_back else (path, value)

    def _from_first_failing(self, parts: list[_Part]) -> list[_Part]:
        """Return the parts from the first failing one on, perhaps with intact ones before it: groups are tested."""
        first, end = 0, len(parts)
        while end - first > ALONE_MOST:
            middle = (first + end) // 2
            if self._fails([part for _, _, part in parts[first:middle]]):
                end = middle
            else:
                first = middle
        return parts[first:]

    def _fails(self, part: object) -> bool:
        self.write(b"")
        if type(part) in _STEADY:
            return False
        try:
            Pickler(self, protocol=5, buffer_callback=_leave_out).dump(part)
        except _OutOfTimeError:
            raise
        except BaseException as error:  # the `__reduce__` of any class
            if is_interruption(error):
                raise
            return True
        return False


def _leave_out(_buffer: object) -> bool:
    return False


def _extended(path: str, text: str, key: object) -> str:
    step = text.format(key if text == ".{}" else shown(key))
    return f"{path}{step}" if not path or step[0] in ".[" else f"{path}, {step}"


def _parts(value: Any) -> Iterator[_Part]:
    """Yield the values that are pickled with a value, each with a name."""
    cls = type(value)
    if cls is FunctionType:
        yield from _parts_of_function(value)
    elif isinstance(value, MethodType):
        yield "its object", None, value.__self__
    elif isinstance(value, partial):
        yield from _parts_of_partial(value)
    elif isinstance(value, type):
        yield from ((".{}", name, part) for name, part in vars(value).items() if not name.startswith("__"))
    elif cls is dict:
        yield from _parts_of_dict(value.items())
    elif cls in (set, frozenset):
        yield from (("an item", None, part) for part in value)
    elif isinstance(value, tuple) or cls is list:
        yield from (("[{}]", index, part) for index, part in enumerate(value))
    else:
        yield from _parts_of_object(value)


def _parts_of_function(function: FunctionType) -> Iterator[_Part]:
    for name in function.__code__.co_names:
        yield "global {}", name, function.__globals__.get(name)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield "variable {}", name, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    for index, default in enumerate(function.__defaults__ or ()):
        yield "default {}", index + 1, default


def _parts_of_partial(call: partial[Any]) -> Iterator[_Part]:
    yield "its function", None, call.func
    yield from (("argument {}", index + 1, part) for index, part in enumerate(call.args))
    yield from (("argument {}", name, part) for name, part in call.keywords.items())


def _parts_of_dict(items: Any) -> Iterator[_Part]:
    for key, part in items:
        yield "[{}]", key, part
        yield "a key", None, key


def _parts_of_object(value: object) -> Iterator[_Part]:
    """Yield the values that an object reduces to. If its `__reduce_ex__` raises, yield none: the object is the
    culprit.
    """
    try:
        reduced: Any = value.__reduce_ex__(5)
    except BaseException as error:  # the `__reduce__` of any class
        if is_interruption(error):
            raise
        return
    if not isinstance(reduced, tuple):
        return
    _, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    for each in state if isinstance(state, tuple) else (state,):
        if isinstance(each, Mapping):
            yield from ((".{}", name, part) for name, part in each.items())
        else:
            yield "its state", None, each
    yield from (("[{}]", index, part) for index, part in enumerate(items or ()))
    yield from _parts_of_dict(pairs or ())
    for index, part in enumerate(arguments):
        yield "its class" if isinstance(part, type) else "argument {}", index + 1, part
