"""Programs: what the tasks of a simulation do, and what comes of it. Values are computed, and time is modelled."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

VALUE, RAISE, NEST = "value", "raise", "nest"
GPUS = 2
"""How many each node has, where tasks ask for some."""
MANY_GPUS = 8
"""The same where some tasks ask for more than any node has."""


@dataclass(frozen=True)
class Script:
    """What one task does: it takes `seconds`, and returns a value that depends on all that it was given."""

    token: int
    seconds: float = 0.05
    size: int = 0
    """bytes of its result; 0: a number"""
    kind: str = VALUE
    children: tuple[Script, ...] = ()
    """submitted by a client inside the task, which waits for them"""
    is_chain: bool = False
    """whether each child has the result of the one before as its argument"""
    deaths: int = 0
    """so many of its first runs kill their processor"""
    resists: bool = False
    """an interrupt has no effect"""
    raises: int = 0
    """so often it raises before it returns; it is run again for that"""
    limit: float = 0.0
    """it is ended after so many seconds; 0: it may take any time"""
    gpus: int = 0
    """how many it takes of its node"""
    priority: int = 0
    once: bool = False
    """it must not begin a second time, whatever is lost"""
    parent_run: str = ""
    """the run that submitted it"""

    @property
    def key(self) -> str:
        """What is submitted once, and should run once."""
        return f"{self.token}{self.parent_run}"


def work(script: Script, *values: Any) -> Any:
    """The function of all tasks: never called, since `value_of` computes what it would return."""


def digest(value: Any) -> int:
    return value if isinstance(value, int) else zlib.crc32(value)


def value_of(script: Script, values: Sequence[Any] = ()) -> Any:
    """Return the result of a task that got these arguments.

    Raises:
        ValueError: if that is what the task does.
    """
    if script.kind == RAISE:
        raise ValueError(script.token)
    number, children = script.token, list[Any]()
    for child in script.children:
        children.append(value_of(child, children[-1:] if script.is_chain else ()))
    for value in (*values, *children):
        number = (number * 31 + digest(value)) % 2**32
    return number.to_bytes(4, "big") * (script.size // 4) if script.size else number
