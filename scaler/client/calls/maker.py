"""CallMaker: makes calls and objects of one client ready to be sent: functions, arguments, ids, and the terms of tasks.

Called by clients, in any thread of the user. Must never: send anything, or refer to a client, which then could not be
collected.
"""

from __future__ import annotations

from typing import Any

from scaler import task_context
from scaler.client.calls.arguments import ArgumentPacker, cure_of, freeze_for
from scaler.client.calls.client_pickling import in_a_task_for
from scaler.client.calls.functions import Functions, Terms, options_of_call
from scaler.client.calls.options import TaskOptions
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.object_reference import ObjectReference
from scaler.errors import SerializeObjectError
from scaler.ids import IdSource, ObjectId
from scaler.pickling.pickled_functions import pickle_main_by_value
from scaler.pickling.serialization import Frames, Serializer, size_of, to_frames
from scaler.pickling.shipped import Shipped
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.priority import with_wish


class CallMaker:
    """What the calls of one client have in common.

    Args:
        address: of the scheduler.
        profiling: whether tasks are measured by default.
        is_nested: whether the client is inside a task of that scheduler.
        shipped: the modules that travel with its functions.
        limit: how large a value may be; None: as large as it likes.
    """

    def __init__(
        self,
        address: str,
        serializer: Serializer,
        profiling: bool,
        is_nested: bool,
        shipped: Shipped | None = None,
        limit: ValueLimit | None = None,
    ) -> None:
        pickle_main_by_value()
        self.address = address
        self.serializer = serializer
        self.profiling = profiling
        self.options = TaskOptions(profiling=profiling)
        """of tasks without options of their own"""
        self.stored_ids: set[ObjectId] = set()
        """the objects that the client holds"""
        self.new_id = IdSource()
        self._is_nested = is_nested
        self._freeze = freeze_for(address)
        self.packer = ArgumentPacker(serializer, address, self._freeze, limit)
        self.functions = Functions(serializer, address, self.packer, shipped)

    def terms(self, options: TaskOptions, name: str = "") -> Terms:
        """Return the terms of tasks with `options` that are submitted now. `name` overrides that of the options."""
        here = task_context.current
        priority = here.child_priority
        if options.priority is not None:
            priority = with_wish(priority, options.priority)
        return priority, name or options.name or "", options.run_options, here.account if self._is_nested else 0

    def terms_of_call(self, options: TaskOptions, function: str) -> Terms:
        """Return the same for calls of a function by its name."""
        priority, name, run_options, account = self.terms(options)
        return priority, name, options_of_call(run_options, function), account

    def store(
        self, obj: Any, name: str | None, kind: type[ObjectReference] = ObjectReference
    ) -> tuple[ObjectReference, ObjectInstruction]:
        """Return a reference of this kind to an object as it is now, and what creates that at the scheduler.

        Raises:
            TypeError: if the name is not a `str`.
            SerializeObjectError: if it cannot be serialised.
            ObjectTooLargeError: if it is too large to be sent.
        """
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of an object must be a str, not {name!r}")
        what = "the object" if name is None else f"the object {name!r}"
        try:
            frames = self.serialised(obj)
        except SerializeObjectError as error:
            raise SerializeObjectError(f"{what}: {error}{cure_of(error)}") from error.__cause__
        self.packer.limit.check(what, frames)
        object_id = ObjectId(self.new_id())
        name = name or f"{type(obj).__name__}-{object_id.hex()[-8:]}"
        self.stored_ids.add(object_id)
        reference = kind(name, object_id, size_of(frames), self.stored_ids)
        return reference, ObjectInstruction(InstructionKind.CREATE, object_id, name, frames)

    def serialised(self, obj: Any) -> Frames:
        """Return an object as it is now, serialised for tasks."""
        with in_a_task_for(self.address):
            return self._freeze(to_frames(self.serializer, obj))
