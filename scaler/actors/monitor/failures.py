"""Failures: the topic `failures`: failed tasks, grouped by type of the error, shape of its message, and function.

The shape of a message leaves out numbers and the worker's name. Reading a traceback is slow. So the traceback of a kind
is read at its first failure, then at most once per second.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from scaler.actors.monitor.names import Names
from scaler.actors.vocabulary.events import TaskMoved
from scaler.ids import ObjectId, TaskId, public_id
from scaler.texts import signature
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.monitor import StateFailure

KINDS_MOST = 500
"""Limit of the kept kinds of failures. The kind that has not occurred for the longest time is dropped first."""

SHOWN_MOST = 200

_LOOK_US = 1_000_000


class _Kind:
    __slots__ = (
        "first_us", "function_id", "function_name", "last_us", "looked_us", "message", "short_id", "task_id", "times",
        "traceback", "type", "worker",
    )  # fmt: skip

    def __init__(self, short_id: bytes, type_name: str, function_id: ObjectId, now_us: int) -> None:
        self.short_id = short_id
        self.type = type_name
        self.function_id = function_id
        self.first_us = self.last_us = now_us
        self.looked_us = 0
        self.times = 0
        self.message = self.worker = self.traceback = self.function_name = ""
        self.task_id: TaskId | None = None


class Failures:
    """The kinds of failures. Failures of a kind agree in type of the error, shape of its message, and function."""

    def __init__(self, names: Names, read_traceback: Callable[[bytes], str]) -> None:
        self._names = names
        self._read_traceback = read_traceback
        self._kinds: OrderedDict[tuple[str, str, ObjectId], _Kind] = OrderedDict()
        self._changed: dict[tuple[str, str, ObjectId], None] = {}

    def add(self, moved: TaskMoved, now_us: int) -> None:
        """Add a failed task to its kind of failure."""
        result = moved.result
        failure = "" if result is None else result.failure
        type_name, _, message = failure.partition(": ") if failure else (moved.state, "", moved.reason)
        worker = self._names.of_worker(moved.worker)
        key = (type_name, signature(message, worker), moved.spec.function_id)
        kind = self._kinds.get(key)
        if kind is None:
            short_id = public_id("\0".join(key[:2]).encode(errors="replace") + key[2])
            kind = self._kinds[key] = _Kind(short_id, type_name, moved.spec.function_id, now_us)
            if len(self._kinds) > KINDS_MOST:
                self._changed.pop(self._kinds.popitem(last=False)[0], None)
        else:
            self._kinds.move_to_end(key)
        kind.times += 1
        kind.last_us, kind.message, kind.task_id = now_us, message, moved.spec.task_id
        kind.worker = worker
        kind.function_name = kind.function_name or self._names.of_function(kind.function_id)
        self._changed[key] = None
        if result is not None and result.status == TaskStatus.FAILED and now_us - kind.looked_us >= _LOOK_US:
            kind.looked_us = now_us
            kind.traceback = self._read_traceback(result.payload)

    def items(self, is_first: bool) -> tuple[list[StateFailure], int]:
        """Return the kinds changed since the last call (all if `is_first`), latest first, and the number of kinds."""
        keys = list(self._kinds if is_first else self._changed)[-SHOWN_MOST:]
        self._changed.clear()
        return [self._item(self._kinds[key]) for key in reversed(keys)], len(self._kinds)

    def _item(self, kind: _Kind) -> StateFailure:
        names = self._names
        return StateFailure(
            kind.short_id,
            kind.type,
            kind.message,
            names.short(kind.function_id),
            kind.function_name,
            kind.times,
            kind.first_us,
            kind.last_us,
            public_id(kind.task_id) if kind.task_id is not None else b"",
            kind.worker,
            kind.traceback,
        )
