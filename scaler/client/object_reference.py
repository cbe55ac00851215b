"""ObjectReference: the user's handle of an object that `Client.send_object` sent.

Created by the client. A task gets the object in place of a reference that is one of its arguments, or is in a container
among them. With `as_is`, the task gets the reference. The scheduler stores the object as long as the reference lives or
a task uses it, but not after the client has ended. References cannot be pickled: only their ids are sent.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, NoReturn

from scaler.client.calls.client_pickling import held_by_call
from scaler.errors import MissingObjects
from scaler.ids import ObjectId

_Anything: Any = Any if TYPE_CHECKING else object
"""The base class of `ObjectReference`. For type checkers it is `Any`, so that a reference fits every annotation."""


class NestedReferenceError(TypeError):
    """Raised when a value that contains a reference or a future is pickled."""


class ObjectReference(_Anything):  # type: ignore[misc]
    """A handle of an object at the scheduler. Any number of tasks can have it as an argument, also in a list, tuple,
    set or dict.

    Attributes:
        name: the name of the reference, given by the user or generated.
        object_id: the id of the object, 16 bytes; references with the same id are equal.
        size: the size of the serialised object, in bytes.
    """

    __slots__ = ("__weakref__", "_stored", "name", "object_id", "size")

    def __init__(self, name: str, object_id: ObjectId, size: int, stored: Container[ObjectId] | None = None) -> None:
        self.name = name
        self.object_id = object_id
        self.size = size
        self._stored = stored

    def as_is(self) -> ReferenceAsIs:
        """Return a wrapper of this reference. If it is an argument of a call, the task gets the reference, not the
        object.

        The task can pass the reference on to its own tasks. The object is stored at least until the task ends. The
        wrapper may be an argument or a part of one. A function, an object of `send_object` or the result of a task
        cannot contain it: the call fails with `SerializeObjectError`. If the object is no longer stored, the call or
        the task fails with `MissingObjects`.
        """
        return ReferenceAsIs(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectReference) and self.object_id == other.object_id

    def __hash__(self) -> int:
        return hash(self.object_id)

    def __repr__(self) -> str:
        return f"ObjectReference(name={self.name!r}, object_id={self.object_id.hex()}, size={self.size})"

    def __reduce__(self) -> NoReturn:
        raise NestedReferenceError(
            f"the reference {self.name!r} is nested in another value, where it cannot be replaced by its object. Pass "
            "it to submit or map on its own or in a list, tuple, set or dict. To pass the reference itself, use its "
            "as_is()"
        )


class ReferenceAsIs(_Anything):  # type: ignore[misc]
    """A wrapper of a reference, for the arguments of a call: the task gets the `ObjectReference`, not the object."""

    __slots__ = ("_reference",)

    def __init__(self, reference: ObjectReference) -> None:
        self._reference = reference

    def __repr__(self) -> str:
        return f"{self._reference!r}.as_is()"

    def __reduce__(self) -> tuple[type[ObjectReference], tuple[str, ObjectId, int]]:
        reference, held = self._reference, held_by_call()
        if held is None:
            raise TypeError(
                f"as_is() of the reference {reference.name!r} can only be part of the arguments of a call: its "
                "object would not be kept for this value"
            )
        held.append(reference)
        return ObjectReference, (reference.name, reference.object_id, reference.size)


class OwnReference(ObjectReference):
    """A reference that gives each task its own copy of the object, which the task may change."""

    __slots__ = ()


def check_stored(reference: ObjectReference) -> None:
    """Raise `MissingObjects` if the client that created a reference no longer stores the object of the reference."""
    stored = reference._stored  # noqa: SLF001 - a method would be a name on the user's `dir()`
    if stored is not None and reference.object_id not in stored:
        raise MissingObjects(
            f"the object {reference.name!r} is no longer stored: its client has called clear() or disconnect()"
        )
