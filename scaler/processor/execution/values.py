"""LoadedValues: the functions and objects that tasks need, as bytes and as values read from them.

Objects are stored before the tasks that need them run, and removed when they are deleted. The value of a small object
is not kept, because each task gets a copy of its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

from scaler.errors import DeserializeObjectError
from scaler.ids import ObjectId, content_id
from scaler.interruptions import is_interruption
from scaler.pickling.pickled_functions import was_read
from scaler.pickling.serialization import (
    BYTES_HEAD,
    INLINE_BYTES,
    Buffer,
    DefaultSerializer,
    Frames,
    Named,
    Serializer,
    from_frames,
    function_from_frames,
    name_of,
    serves_nothing,
    size_of,
)
from scaler.pickling.shipped_modules import carried
from scaler.shared_memory import private_frames, writable
from scaler.texts import described
from scaler.wire.messages.worker import RunTask


class KnownFunction(NamedTuple):
    """A function that this process has read, and its serializer."""

    serializer: Serializer
    call: Callable[..., Any]
    read: Callable[..., Any]
    """the function that makes an argument from its bytes or frames"""


class LoadedValues:
    """The functions and objects of one worker process.

    Args:
        named: returns the function that is served under a name.
        reading: returns a context manager that is active while a function is read.
    """

    def __init__(
        self, named: Named = serves_nothing, reading: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._named, self._reading = named, reading
        self.functions: dict[ObjectId, KnownFunction] = {}
        self._frames: dict[ObjectId, Frames] = {}
        self._values: dict[ObjectId, Any] = {}

    def store(self, object_id: ObjectId, frames: Frames) -> None:
        """Store the frames of an object."""
        self._frames[object_id] = frames

    def frames(self, object_id: ObjectId) -> Frames:
        """Return the frames of a stored object."""
        return self._frames[object_id]

    def without(self, object_ids: Iterable[ObjectId]) -> LoadedValues:
        """Return a copy without some objects. This instance does not change, because a task may be reading from it."""
        remaining = LoadedValues(self._named, self._reading)
        remaining.functions, remaining._frames, remaining._values = (
            dict(self.functions),
            dict(self._frames),
            dict(self._values),
        )
        remaining.forget(object_ids)
        return remaining

    def forget(self, object_ids: Iterable[ObjectId]) -> None:
        """Remove objects, and the values that were read from them."""
        for object_id in object_ids:
            for table in (self._frames, self._values, self.functions):
                table.pop(object_id, None)

    def read_function(self, object_id: ObjectId) -> KnownFunction:
        """Read a stored function, and keep it in `functions`.

        Raises:
            DeserializeObjectError: if this process cannot read the function, or its content does not match its id.
        """
        frames = self._frames[object_id]
        if content_id(frames) != object_id:
            raise DeserializeObjectError(
                "the function that arrived is not the function that was sent: its content does not match its id; "
                "another client may have stored it"
            )
        modules = carried()
        try:
            with self._reading():
                serializer, function = function_from_frames(frames, self._named)
        finally:
            if modules and carried() is not modules:  # what was read before may need modules that were removed
                self.functions.clear()
                self._values.clear()
        if not memoryview(frames[0]).nbytes and size_of(frames) <= INLINE_BYTES:
            was_read(function, [bytes(frame) for frame in frames])
        known = self.functions[object_id] = KnownFunction(serializer, function, reader_of(serializer))
        return known

    def name_of(self, task: RunTask) -> str:
        """Return the name of a task or, if it has none, of its function; "" if the function was not read yet."""
        known = self.functions.get(task.function_id)
        return task.name or (name_of(known.call) if known else "")

    def stored(self, serializer: Serializer, object_id: ObjectId, is_own: bool = False) -> Any:
        """Return the value of an object. A large object is read once; a small one is read for each task, which may
        change it.

        Args:
            is_own: whether only one task has the object as an argument, and may change it and its buffers.

        Raises:
            DeserializeObjectError: if the object cannot be read in this process.
        """
        if object_id in self._values:
            return self._values[object_id]
        frames = self._frames[object_id]
        if is_own:
            return from_frames(serializer, private_frames(frames, BYTES_HEAD))
        value = from_frames(serializer, frames)
        if size_of(frames) > INLINE_BYTES:
            self._values[object_id] = value
        return value


def reader_of(serializer: Serializer) -> Callable[..., Any]:
    """Return the function with which `serializer` makes an argument from its bytes or frames."""
    return _read_value if type(serializer) is DefaultSerializer else partial(_read_own_value, serializer)


def _read_value(data: Buffer, *buffers: Buffer) -> Any:
    """Read an argument that the default serializer has written. This takes half the time of `from_frames`."""
    try:
        return pickle.loads(data, buffers=map(writable, buffers)) if buffers else pickle.loads(data)
    except BaseException as error:  # unpickling runs code of the user
        if is_interruption(error):
            raise
        raise DeserializeObjectError(f"an argument cannot be read here: {described(error)}") from error


def _read_own_value(serializer: Serializer, data: Buffer) -> Any:
    return from_frames(serializer, [data])
