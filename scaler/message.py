"""Messages: the base of all messages between actors and between peers.

A message is a small class with slots and nothing but data. Commands are imperative (`AssignTasks`), facts are in the
past tense (`TaskFinished`). A message is never changed after it was sent; the type checker enforces that, the
interpreter does not, because a frozen dataclass costs three times as much to build and one is built for every step of
every task.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
elif TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: Any) -> Any:
        """Tell a type checker, and do nothing."""
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=True, field_specifiers=(dataclasses.field,))
def message(cls: type[T]) -> type[T]:
    """Make `cls` a message: slots, positional constructor, equality and a readable `repr`, from its annotations."""
    return dataclasses.dataclass(slots=True)(cls)
