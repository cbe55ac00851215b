"""Said: how a client says objects, and how much of the scheduler's memory a task takes.

Used by the open work. Must never: keep state.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from scaler.client.calls.entry import Entry, GraphEntry
from scaler.ids import ObjectId
from scaler.pickling.serialization import size_of
from scaler.shared_memory import SharedFrames
from scaler.wire.messages.client import GraphTaskCancel, TaskCancel
from scaler.wire.messages.common import InstructionKind, ObjectInstruction


def as_sent(instruction: ObjectInstruction) -> ObjectInstruction:
    """Return the instruction with the location of its shared memory instead of its bytes, if it has one."""
    frames = instruction.frames
    if type(frames) is not SharedFrames:
        return instruction
    return ObjectInstruction(instruction.kind, instruction.object_id, instruction.name, (), frames.location)


def size_at_scheduler(entry: Entry) -> int:
    """Return about how many bytes the arguments of a task take there."""
    size, objects = len(entry[0].payload), entry[3]
    return size + sum(size_of(as_sent(instruction).frames) for instruction in objects) if objects else size


def object_of_call(
    object_id: ObjectId, entries: Iterable[Entry], graphs: Iterable[GraphEntry]
) -> ObjectInstruction | None:
    """Return the object with this id that was made for one of these calls, if there is one."""
    objects = chain.from_iterable(chain((entry[3] for entry in entries), (graph.objects for graph in graphs)))
    return next((instruction for instruction in objects if instruction.object_id == object_id), None)


def is_withdrawal(item: Any) -> bool:
    """Return whether an item is a cancel or a delete: what it concerns may not be in any table any more."""
    return isinstance(item, (TaskCancel, GraphTaskCancel)) or (
        isinstance(item, ObjectInstruction) and item.kind == InstructionKind.DELETE
    )
