"""Messages: the base of all messages between actors and between peers.

A message is a small class with slots and nothing but data. Commands are imperative (`AssignTasks`), facts are in the
past tense (`TaskFinished`). A message is not changed after it was sent. Only the type checker enforces this: every step
of every task creates a message, and an instance of a frozen dataclass takes three times as long to create.

Each process defines some two hundred message classes when it starts. For each class, `dataclass` would compile three
methods, which would take an eighth of the processor time of a scheduler's start. `message` compiles only the
constructor, and only when the first message of the class is created.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, TypeVar, cast

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
elif TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: Any) -> Any:
        """Return a decorator that changes nothing; only type checkers use this function."""
        return lambda decorator: decorator


__all__ = ["dataclass_transform", "message"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=True, field_specifiers=(dataclasses.field,))
def message(cls: type[T]) -> type[T]:
    """Make `cls` a message: derive slots, a positional constructor, equality and a `repr` from the annotations."""
    cls.__doc__ = cls.__doc__ or cls.__qualname__  # else dataclass generates one, which doubles the time
    made: Any = dataclasses.dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    made.__init__ = _first_constructor(made)
    made.__repr__ = _repr
    made.__eq__ = _equal
    made.__hash__ = None
    return cast(type[T], made)


def _first_constructor(cls: Any) -> Any:
    """Return a constructor that compiles the real one at its first call: most processes use few kinds of messages."""

    def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807 - it is one
        cls.__init__ = _constructor(cls)
        cls.__init__(self, *values, **named)

    return __init__


def _constructor(cls: Any) -> Any:
    parameters, body, names = ["self"], [], {}
    for field in dataclasses.fields(cls):
        name = field.name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_new_{name}"] = field.default_factory
            parameters.append(f"{name}=_new_{name}")
            body.append(f"self.{name} = _new_{name}() if {name} is _new_{name} else {name}")
            continue
        if field.default is not dataclasses.MISSING:
            names[f"_{name}"] = field.default
            parameters.append(f"{name}=_{name}")
        else:
            parameters.append(name)
        body.append(f"self.{name} = {name}")
    made: dict[str, Any] = {}
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    # Compiled first: Python forgets that an uncaught KeyboardInterrupt ends the program when a string is executed.
    exec(compile(source, "<message>", "exec"), names, made)  # noqa: S102 - the names are those of a class of our own
    constructor = made["__init__"]
    constructor.__qualname__, constructor.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return constructor


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({values})"


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)
