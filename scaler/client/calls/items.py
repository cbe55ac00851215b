"""Items: the arguments of each task of a map: checked before they are sent, and named when their task has failed.

Used by the maps of both clients. Must never: raise because of the `repr` of a user's value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from reprlib import Repr
from typing import Any

from scaler.client.calls.options import OPTIONS
from scaler.client.foreign_words import of_keyword
from scaler.errors import ObjectTooLargeError, SerializeObjectError

UNFIT = SerializeObjectError, ObjectTooLargeError, TypeError
"""the errors of a call that cannot be made ready"""

ARGUMENTS = {
    "map": ("progress", "return_exceptions", "timeout", "window", "on_change"),
    "map_unordered": ("return_exceptions", "timeout", "window", "on_change"),
    "start": ("name", "keep_for", "on_change"),
}
"""The keyword arguments of the calls that make many tasks, for one that is misspelt; `job` is a word that is known."""

_SHORT = Repr()
_SHORT.maxother = _SHORT.maxstring = 40


def check_item(index: int, item: object) -> None:
    """Raise `TypeError` unless this can be the arguments of a task."""
    if not isinstance(item, (tuple, list)):
        is_row = isinstance(item, Iterable) and not isinstance(item, (str, bytes, Mapping))
        raise TypeError(
            f"each item must be a tuple or a list of arguments; item {index} is {_SHORT.repr(item)}: write ((x,) for x "
            f"in items), or zip(xs, ys) for two arguments{', or map(tuple, items) if each item has these' * is_row}"
        )


def name_of_item(function: str, index: int, items: object) -> str:
    """Return what the task of an item is called in errors, with its arguments if the items can be looked up."""
    shown = _shown(items[index]) if isinstance(items, Sequence) else ""
    return f"{function}{shown} (item {index} of the map)"


def of_item(error: Exception, index: int) -> Exception:
    """Return the error of a call that cannot be made ready, one of `UNFIT`, with the item that is to blame."""
    if isinstance(error, ObjectTooLargeError):
        return error.said_of(f"item {index} of the map: {error.value}")
    error_class = SerializeObjectError if isinstance(error, SerializeObjectError) else TypeError
    better = error_class(f"item {index} of the map: {error}")
    better.__cause__ = error.__cause__
    return better


def _shown(item: Sequence[Any]) -> str:
    try:
        return f"({', '.join(map(_SHORT.repr, item))})"
    except Exception:  # noqa: BLE001 - the `repr` of a user's class
        return ""


def not_of_map(call: str, unknown: Iterable[str]) -> TypeError:
    """Return the error of a map or job that was given several iterables, as the built-in map takes them, or keyword
    arguments that it does not take.

    Args:
        call: the name of the method.
        unknown: the keyword arguments.
    """
    for name in unknown:
        ours = of_keyword(name, ARGUMENTS[call], OPTIONS, call)
        if name == "name":  # of `map`; `start` takes it
            ours += ", and the name of a job is job="
        same = f"; for the function: client.{call}(functools.partial(fn, {name}=...), ...)"
        return TypeError(f"{call} got an unexpected keyword argument {name!r}{ours or same}")
    return TypeError(
        "map takes one iterable, of the arguments of each task, and the rest by keyword: "
        "client.map(fn, zip(xs, ys)) for two arguments"
    )
