"""Objects: how functions, arguments and values of `send_object` are sent, kept for the next scheduler, or refused.

Used by the open work, which fails the calls that need a refused value.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import partial
from typing import Any

from scaler.client.calls.entry import Entry, MakeError
from scaler.client.calls.value_limit import ValueLimit
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId, split_ids
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import SharedFrames
from scaler.wire.messages.client import TaskCancel
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.session.too_large import crash_advice


def as_sent(instruction: ObjectInstruction) -> ObjectInstruction:
    """Return `instruction` as it is sent: with a location in place of the bytes, if these are in shared memory."""
    frames = instruction.frames
    if type(frames) is not SharedFrames:
        return instruction
    return ObjectInstruction(instruction.kind, instruction.object_id, instruction.name, (), frames.location)


def size_at_scheduler(entry: Entry) -> int:
    """Return the approximate number of bytes that the arguments of a task take at the scheduler."""
    task, objects = entry[0], entry[3]
    size = len(task.payload) + (size_of(task.frames) if task.frames else 0)
    return size + sum(size_of(as_sent(instruction).frames) for instruction in objects) if objects else size


def object_of(object_id: ObjectId, entries: Iterable[Entry]) -> ObjectInstruction | None:
    """Return the object `object_id` if it was made for one of these tasks, else None."""
    return next((each for entry in entries for each in entry[3] if each.object_id == object_id), None)


def is_withdrawal(item: Any) -> bool:
    """Return whether an item cancels a task or deletes an object, known or unknown."""
    return isinstance(item, TaskCancel) or (isinstance(item, ObjectInstruction) and item.kind == InstructionKind.DELETE)


FUNCTIONS_MOST = 512
FUNCTIONS_BYTES_MOST = 256 * 1024 * 1024


class KeptFunctions(dict[ObjectId, ObjectInstruction]):
    """The functions to resend on a new connection, by id. A `dict` for speed, changed only by the methods below."""

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0
        self._most, self._bytes_most = FUNCTIONS_MOST, FUNCTIONS_BYTES_MOST

    def keep(self, function: ObjectInstruction) -> None:
        """Add a function, unless it has been added before."""
        if function.object_id not in self:
            self[function.object_id] = function
            self._size_bytes += size_of(function.frames)

    def drop(self, object_id: ObjectId) -> None:
        """Remove a function. Unknown ids are ignored."""
        function = self.pop(object_id, None)
        if function is not None:
            self._size_bytes -= size_of(function.frames)

    def is_full(self) -> bool:
        """Return whether unused functions should be dropped, because there are too many functions, or they are too
        large.
        """
        return len(self) > self._most or self._size_bytes > self._bytes_most

    def drop_unused(self, used: Container[ObjectId]) -> list[ObjectId]:
        """Drop all functions that are not in `used`. Return the ids of the dropped functions."""
        unused = [object_id for object_id in self if object_id not in used]
        for object_id in unused:
            self.drop(object_id)
        # Finding unused functions scans all open tasks, so double the limit when most are in use.
        self._most = max(FUNCTIONS_MOST, 2 * len(self))
        self._bytes_most = max(FUNCTIONS_BYTES_MOST, 2 * self._size_bytes)
        return unused


class Refusals:
    """The values that the client does not send, each with the error of the calls that need it."""

    def __init__(self, limit: ValueLimit) -> None:
        self.limit = limit
        self._known: dict[ObjectId, MakeError] = {}
        """id of an object that is never sent again -> makes the error of a call that needs it"""
        self._deaths: dict[ObjectId, int] = {}
        """id of an object -> the number of successive schedulers that ended during its transfer"""

    def __bool__(self) -> bool:
        """Return whether any object is refused."""
        return bool(self._known)

    def reason(
        self, made: Iterable[ObjectInstruction], object_ids: bytes = b"", carried: Iterable[Frames] = ()
    ) -> MakeError | None:
        """Return a function that makes the error of a call, or None if all values of the call may be sent.

        Args:
            made: the function of the call, and the objects made for the call.
            carried: the frames of arguments that travel with the call, or with each of its tasks.
        """
        for instruction in made:
            make_error = self._known.get(instruction.object_id) or self.of_value(as_sent(instruction))
            if make_error is not None:
                return make_error
        largest = max(map(size_of, carried), default=0)
        if largest > self.limit.n_bytes:
            return partial(self.limit.error, "an argument", largest)
        known = map(self._known.get, map(ObjectId, split_ids(object_ids))) if self._known else ()
        return next(filter(None, known), None)

    def of_value(self, instruction: ObjectInstruction) -> MakeError | None:
        """Return a function that makes the error of a value that is too large to be sent; None for a smaller value."""
        size = size_of(instruction.frames)
        return partial(self.limit.error, _what(instruction), size) if size > self.limit.n_bytes else None

    def add(self, object_id: ObjectId, make_error: MakeError) -> None:
        """Refuse an object from now on."""
        self._known[object_id] = make_error

    def forget(self, object_id: ObjectId) -> None:
        """Forget the refusal of an object that is no longer used."""
        self._known.pop(object_id, None)

    def on_dead_scheduler(self, in_transit: Iterable[Any], unacknowledged: Iterable[Any]) -> None:
        """Refuse values that were in transit to `TRIES_MOST` successive schedulers when these ended."""
        left = {item.object_id for item in in_transit if type(item) is ObjectInstruction}
        known, self._deaths = self._deaths, {}
        for item in unacknowledged:
            if type(item) is not ObjectInstruction:
                continue
            times = self._deaths[item.object_id] = known.get(item.object_id, 0) + (item.object_id in left)
            if times >= TRIES_MOST:
                self.add(item.object_id, partial(self._deadly, _what(item), size_of(item.frames)))

    def _deadly(self, value: str, size: int) -> ObjectTooLargeError:
        return ObjectTooLargeError(value, size, self.limit.host, None, crash_advice(TRIES_MOST))


def _what(instruction: ObjectInstruction) -> str:
    if instruction.kind == InstructionKind.CREATE_FUNCTION:
        return f"the function {instruction.name} with the values that it holds"
    return f"the object {instruction.name!r}" if instruction.name else "an argument"
