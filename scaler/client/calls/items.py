"""Items: the arguments of each task of a map, with the checks of the items and their names in errors.

Used by the maps of both clients. Values are shown by `scaler.texts.shown`, which calls no `repr` of a user's class.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from scaler.client.calls.inputs import ResultArgument
from scaler.client.calls.options import OPTIONS
from scaler.client.foreign_words import keyword_hint
from scaler.errors import ObjectTooLargeError, SerializeObjectError
from scaler.texts import ARGUMENTS_CHARACTERS, cut, shown

UNFIT = SerializeObjectError, ObjectTooLargeError, TypeError
"""The exceptions raised for a call that cannot be serialised or sent."""


def check_items(call: str, fn: object, items: object) -> None:
    """Raise `TypeError` if the items of a map or job cannot be iterated over. If `fn` is not callable, do nothing."""
    if not callable(fn):
        return
    is_future = isinstance(items, ResultArgument)
    if is_future or not (isinstance(items, (Iterable, AsyncIterable)) or hasattr(type(items), "__getitem__")):
        value = "; take the result of the future first" if is_future else ""
        raise TypeError(
            f"{call} takes an iterable of the arguments of each task, such as [(x,) for x in xs], not "
            f"{shown(items)}{value}"
        )


def check_item(index: int, item: object) -> None:
    """Raise `TypeError` unless an item is a tuple or a list of arguments."""
    if not isinstance(item, (tuple, list)):
        is_row = isinstance(item, Iterable) and not isinstance(item, (str, bytes, Mapping))
        rows = ", or map(tuple, items) if each item holds all arguments of its call" if is_row else ""
        raise TypeError(
            f"each item must be a tuple or a list of arguments; item {index} is {shown(item)}: write ((x,) for x "
            f"in items), or zip(xs, ys) for two arguments{rows}"
        )


def close_items(rest: object) -> None:
    """Close the user's iterator of items, if it can be closed, because no further item is drawn."""
    close = getattr(rest, "close", None)
    if close is not None:
        close()


def name_of_item(function: str, index: int, items: object) -> str:
    """Return the name of an item's task in errors. The name includes the arguments if `items` is a sequence."""
    called = f"({shown_arguments(items[index])})" if isinstance(items, Sequence) else ""
    return f"{function}{called} (item {index} of the map)"


def of_item(error: Exception, index: int) -> Exception:
    """Return `error`, one of `UNFIT`, as an exception whose message has the index of the item."""
    if isinstance(error, ObjectTooLargeError):
        return error.renamed(f"item {index} of the map: {error.value}")
    kinds = SerializeObjectError, ValueError
    better = next((kind for kind in kinds if isinstance(error, kind)), TypeError)(f"item {index} of the map: {error}")
    better.__cause__ = error.__cause__
    return better


def named_item(error: BaseException, index: int) -> BaseException:
    """Return the error of an item that was refused when its task was sent, with the index of the item.

    Errors of other kinds, such as those of a lost connection, are returned as they are.
    """
    is_refusal = isinstance(error, ObjectTooLargeError) or type(error) in (TypeError, ValueError)
    return of_item(error, index) if isinstance(error, Exception) and is_refusal else error


def shown_arguments(positional: Iterable[Any], keywords: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return the arguments of a call as shortened text."""
    texts = [*map(shown, positional), *(f"{key}={shown(each)}" for key, each in keywords.items())]
    return cut(", ".join(texts), ARGUMENTS_CHARACTERS)


def not_of_map(method: Callable[..., Any], unknown: Iterable[str]) -> TypeError:
    """Return the error of a map or job call that has arguments which `method` does not take.

    `unknown` names the unknown keywords. If it is empty, the call has several iterables, which only Python's `map`
    takes.
    """
    call, own = method.__name__, inspect.signature(method).parameters
    for name in unknown:
        ours = keyword_hint(name, own, OPTIONS, call)
        if name == "name":  # an unknown keyword of `map`; `start` has it
            ours += ", and the name of a job is job="
        same = f"; for the function: client.{call}(functools.partial(fn, {name}=...), ...)"
        return TypeError(f"{call} got an unexpected keyword argument {name!r}{ours or same}")
    return TypeError(
        "map takes one iterable, of the arguments of each task, and the rest by keyword: "
        "client.map(fn, zip(xs, ys)) for two arguments"
    )
