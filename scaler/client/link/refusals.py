"""Refusals: which values of a client are not sent: too large for the scheduler, or on their way there whenever it died.

Used by the open work, which fails the calls that need them. Must never: send.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from scaler.client.calls.entry import MakeError
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.link.object_messages import as_sent
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId, split_ids
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import size_of
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.session.too_large import died_of_it


class Refusals:
    """The values that are not sent, and why.

    Args:
        limit: how large a value may be.
    """

    def __init__(self, limit: ValueLimit) -> None:
        self.limit = limit
        self._known: dict[ObjectId, MakeError] = {}
        """objects that are never sent again"""
        self._deaths: dict[ObjectId, int] = {}
        """on their way to how many schedulers, one after the other, an object was when these ended"""

    def __bool__(self) -> bool:
        """Return whether there are objects that are never sent again."""
        return bool(self._known)

    def reason(self, made: Iterable[ObjectInstruction], object_ids: bytes = b"") -> MakeError | None:
        """Return what makes the error of a call; None if all its values may be sent.

        Args:
            made: its function, and the objects that go with it.
            object_ids: of all objects that it needs.
        """
        for instruction in made:
            make_error = self._known.get(instruction.object_id) or self.of_value(as_sent(instruction))
            if make_error is not None:
                return make_error
        known = map(self._known.get, map(ObjectId, split_ids(object_ids))) if self._known else ()
        return next(filter(None, known), None)

    def of_value(self, instruction: ObjectInstruction) -> MakeError | None:
        """Return what makes the error of a value that is too large to be sent as it is; None if it is not."""
        size = size_of(instruction.frames)
        return partial(self.limit.error, _what(instruction), size) if size > self.limit.n_bytes else None

    def add(self, object_id: ObjectId, make_error: MakeError) -> None:
        """Never send an object again."""
        self._known[object_id] = make_error

    def forget(self, object_id: ObjectId) -> None:
        """Nobody refers to an object any more."""
        self._known.pop(object_id, None)

    def on_dead_scheduler(self, on_their_way: Iterable[Any], unheard: Iterable[Any]) -> None:
        """The scheduler has ended. Give up on a value if several have, one after the other, while it was on its way.

        Args:
            on_their_way: the items that had left, wholly or in part.
            unheard: all items that have not arrived.
        """
        left = {item.object_id for item in on_their_way if type(item) is ObjectInstruction}
        known, self._deaths = self._deaths, {}
        for item in unheard:
            if type(item) is not ObjectInstruction:
                continue
            times = self._deaths[item.object_id] = known.get(item.object_id, 0) + (item.object_id in left)
            if times >= TRIES_MOST:
                self.add(item.object_id, partial(self._deadly, _what(item), size_of(item.frames)))

    def _deadly(self, value: str, size: int) -> ObjectTooLargeError:
        return ObjectTooLargeError(value, size, self.limit.host, None, died_of_it(TRIES_MOST))


def _what(instruction: ObjectInstruction) -> str:
    """Return what to call a value."""
    if instruction.kind == InstructionKind.CREATE_FUNCTION:
        return f"the function {instruction.name} with the values that it holds"
    return f"the object {instruction.name!r}" if instruction.name else "an argument"
