"""OutputTable: the recent output lines of tasks and their latest progress reports, in bounded memory.

Written by `TaskOutputs`; also read by the monitor. The table keeps the last lines of the tasks with the most recent
output. Omitted lines are counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from scaler.ids import TaskId, public_id
from scaler.wire.messages.common import OutputStream
from scaler.wire.messages.worker import RunOutput

LINES_MOST = 1000
"""Limit of the number of lines that are kept of one task."""
BYTES_MOST = 256 * 1024
"""Limit of the estimated bytes that are kept of one task."""
TOTAL_BYTES_MOST = 64 * 1024 * 1024
"""Limit of the estimated bytes that are kept of all tasks."""
LINE_BYTES = 250
"""The estimated overhead in bytes of each line, and of each task."""


class KeptLine(NamedTuple):
    """An output line or a progress report of a task."""

    number: int
    """the number of this line among the lines of all tasks, from 1"""
    stream: int
    time_us: int
    dropped: int
    """the number of lines of the task that were omitted before this line"""
    worker: str
    text: str

    @property
    def size(self) -> int:
        return LINE_BYTES + len(self.text)


class TaskOutputRecord:
    """The kept lines and the latest progress report of one task."""

    __slots__ = ("account", "at", "dropped", "lines", "name", "report", "short_id", "size")

    def __init__(self, account: int, name: str, short_id: bytes) -> None:
        self.account = account
        """the account of the client that receives the output"""
        self.name = name
        self.short_id = short_id
        self.lines: deque[KeptLine] = deque()
        self.report: KeptLine | None = None
        self.size = LINE_BYTES
        self.dropped = 0
        """the number of omitted lines of the task, including lines that never reached the scheduler"""
        self.at = 0.0
        """when output of the task was last added"""


class OutputTable:
    """The recent output of tasks, kept for `retention_seconds` after a task's last line; 0: no output is kept."""

    def __init__(self, retention_seconds: float) -> None:
        self._retention_seconds = retention_seconds
        self._tasks: OrderedDict[TaskId, TaskOutputRecord] = OrderedDict()
        self._by_short: dict[bytes, TaskId] = {}
        self._size = 0
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, line: RunOutput, account: int, name: str, worker: str, now: float) -> KeptLine:
        """Store a line of a task. Return the line with its number."""
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
        """Drop expired output. Return the time at which the next output expires; None if the table is empty."""
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
        """Return the id of the task with a short id; None if no output of the task is kept."""
        return self._by_short.get(short_id)

    def find(self, task_id: TaskId) -> TaskOutputRecord | None:
        """Return the kept output of a task; None if no output of the task is kept."""
        return self._tasks.get(task_id)

    def after(self, task_id: TaskId, number: int) -> list[KeptLine]:
        """Return a task's lines after the line with this number, and its latest progress report if this is newer."""
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
        """The estimated size of the kept output of all tasks in bytes."""
        return self._size
