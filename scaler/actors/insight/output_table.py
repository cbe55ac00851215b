"""OutputTable: the lines that tasks have written, and how far they are, for some time, and in bounded memory.

Written by `TaskOutputs`, read by the monitor too. Of each task the last lines are kept, and its latest report; of all
tasks those that have written last. What is left out is counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from scaler.ids import TaskId, public_id
from scaler.wire.messages.common import OutputStream
from scaler.wire.messages.worker import RunOutput

LINES_MOST = 1000
"""So many lines of a task are kept."""
BYTES_MOST = 256 * 1024
"""About so many bytes of a task are kept."""
TOTAL_BYTES_MOST = 64 * 1024 * 1024
"""The same, of all tasks together."""
LINE_BYTES = 250
"""What a line takes beside its text, and a task beside its lines."""


class KeptLine(NamedTuple):
    """A line of a task."""

    number: int
    """counts the lines of all tasks, from 1"""
    stream: int
    time_us: int
    dropped: int
    """so many lines of the task before this one were left out"""
    worker: str
    text: str

    @property
    def size(self) -> int:
        return LINE_BYTES + len(self.text)


class TaskOutputRecord:
    """What is kept of one task."""

    __slots__ = ("account", "at", "dropped", "lines", "name", "report", "short_id", "size")

    def __init__(self, account: int, name: str, short_id: bytes) -> None:
        self.account = account
        """of the client that it is for"""
        self.name = name
        self.short_id = short_id
        self.lines: deque[KeptLine] = deque()
        self.report: KeptLine | None = None
        """how far it has said last to be"""
        self.size = LINE_BYTES
        self.dropped = 0
        """how many of its lines were left out, here or before"""
        self.at = 0.0
        """when something was added last"""


class OutputTable:
    """What is kept of all tasks.

    Args:
        retention_seconds: for so long after the last line of a task.
    """

    def __init__(self, retention_seconds: float) -> None:
        self._retention_seconds = retention_seconds
        self._tasks: OrderedDict[TaskId, TaskOutputRecord] = OrderedDict()
        self._by_short: dict[bytes, TaskId] = {}
        self._size = 0
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, line: RunOutput, account: int, name: str, worker: str, now: float) -> KeptLine:
        """Keep a line of a task."""
        self._numbers += 1
        kept = KeptLine(self._numbers, line.stream, line.time_us, line.dropped, worker, line.text)
        if self._retention_seconds:
            self._keep(line.task_id, kept, account, name, now)
        return kept

    def _keep(self, task_id: TaskId, line: KeptLine, account: int, name: str, now: float) -> None:
        task = self._tasks.get(task_id)
        if task is None:
            task = self._tasks[task_id] = TaskOutputRecord(account, name, public_id(task_id))
            self._by_short[task.short_id] = task_id
            self._size += task.size
        else:
            self._tasks.move_to_end(task_id)
        task.at = now
        task.dropped += line.dropped
        before = task.size
        task.size += line.size
        if line.stream == OutputStream.REPORT:
            task.size -= task.report.size if task.report is not None else 0
            task.report = line
        else:
            task.lines.append(line)
        while task.lines and (len(task.lines) > LINES_MOST or task.size > BYTES_MOST):
            task.size -= task.lines.popleft().size
            task.dropped += 1
        self._size += task.size - before
        while self._size > TOTAL_BYTES_MOST:
            self._forget(next(iter(self._tasks)))
        self.expire(now)

    def expire(self, now: float) -> float | None:
        """Forget what is too old. Return when the next task is; None: there is none."""
        tasks = self._tasks
        while tasks:
            task_id, task = next(iter(tasks.items()))
            if task.at + self._retention_seconds > now:
                return task.at + self._retention_seconds
            self._forget(task_id)
        return None

    def _forget(self, task_id: TaskId) -> None:
        task = self._tasks.pop(task_id)
        self._size -= task.size
        del self._by_short[task.short_id]

    def id_of(self, short_id: bytes) -> TaskId | None:
        """Return the id of a task, if something of it is kept."""
        return self._by_short.get(short_id)

    def find(self, task_id: TaskId) -> TaskOutputRecord | None:
        """Return what is kept of a task."""
        return self._tasks.get(task_id)

    def after(self, task_id: TaskId, number: int) -> list[KeptLine]:
        """Return the lines of a task that came after the one with this number, and its latest report if that did."""
        task = self._tasks.get(task_id)
        if task is None:
            return []
        lines = [line for line in task.lines if line.number > number]
        if task.report is not None and task.report.number > number:
            lines.append(task.report)
            lines.sort()
        return lines

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes."""
        return self._size
