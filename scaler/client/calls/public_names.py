"""Public names: Python's own errors about arguments name the class that users write, not one that it is derived from.

Used where the classes of both clients are made. Must never: change how a method is called.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar

C = TypeVar("C", bound=type)


def named_as(name: str) -> Callable[[C], C]:
    """Return a decorator that names the methods of a class after another one: `Client.options()`."""

    def decorate(kind: C) -> C:
        for attribute in vars(kind).values():
            if isinstance(attribute, FunctionType):
                attribute.__qualname__ = f"{name}.{attribute.__name__}"
        return kind

    return decorate
