"""ObjectReference: the user's handle of an object that `Client.send_object` sent.

Made by the client; read by the client when the reference is an argument of a task. The scheduler keeps the object as
long as the reference lives or a task uses it, and no longer than the client. Must never be pickled: only its id
travels.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, NoReturn

from scaler.errors import MissingObjects
from scaler.ids import ObjectId

_Anything: Any = Any if TYPE_CHECKING else object
"""A reference stands for its object, so type checkers take it for a value of any type."""


class ObjectReference(_Anything):  # type: ignore[misc]
    """An object at the scheduler, for use as an argument of any number of tasks.

    Attributes:
        name: given by the user, or made up.
        object_id: its id, 16 bytes; references are equal if their ids are.
        size: bytes of its serialised form.
    """

    __slots__ = ("__weakref__", "_stored", "name", "object_id", "size")

    def __init__(self, name: str, object_id: ObjectId, size: int, stored: Container[ObjectId] | None = None) -> None:
        self.name = name
        self.object_id = object_id
        self.size = size
        self._stored = stored

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectReference) and self.object_id == other.object_id

    def __hash__(self) -> int:
        return hash(self.object_id)

    def __repr__(self) -> str:
        return f"ObjectReference(name={self.name!r}, object_id={self.object_id.hex()}, size={self.size})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the reference {self.name!r} is nested in another value, where it cannot be replaced by its object; "
            "pass it as an argument of its own"
        )


class OwnReference(ObjectReference):
    """A reference whose object each task gets as a copy of its own, which it may change."""

    __slots__ = ()


def check_stored(reference: ObjectReference) -> None:
    """Raise `MissingObjects` if the client of a reference has forgotten its object."""
    stored = reference._stored  # noqa: SLF001 - a method would be a name on the user's `dir()`
    if stored is not None and reference.object_id not in stored:
        raise MissingObjects(
            f"the object {reference.name!r} is not stored any more: its client has called clear() or disconnect()"
        )
