"""TaskLog: the output and the progress reports of a task, for users.

Made by futures and clients, in the thread of the user, which waits for the scheduler's answer up to a time-out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, overload

from scaler.client.link.link import ClientLink
from scaler.client.link.requests import Answer
from scaler.config import check_timeout
from scaler.ids import TaskId
from scaler.wire.messages.client import OutputLine
from scaler.wire.messages.common import OUTPUT_STREAMS

T = TypeVar("T")

LOG_SECONDS = 10.0
"""The longest time, by default, that a user waits for the output of a task."""


@dataclass(frozen=True)
class LogLine:
    """A line that a task has written.

    Attributes:
        time: when the line was written, by the clock of the worker's host.
        stream: `stdout`, `stderr` or `logging`.
        worker: the name of the worker that ran the task.
        task: the name of the task.
        text: the line, without its end.
        dropped: the number of lines left out before this line.
    """

    time: datetime
    stream: str
    worker: str
    task: str
    text: str
    dropped: int = 0

    def __str__(self) -> str:
        text = f"{self.worker} {self.task}: {self.text}"
        return f"{left_out(self.dropped)}\n{text}" if self.dropped else text


@dataclass(frozen=True)
class TaskLog(Sequence[LogLine]):
    """The kept lines of a task, the oldest first, as a sequence of `LogLine`. `str()` returns the log as text.

    Attributes:
        lines: the kept lines.
        dropped: the total number of lines left out, because there were too many in a second or in the task.
    """

    lines: tuple[LogLine, ...]
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[LogLine]:
        return iter(self.lines)

    @overload
    def __getitem__(self, index: int) -> LogLine: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[LogLine, ...]: ...

    def __getitem__(self, index: int | slice) -> LogLine | tuple[LogLine, ...]:
        return self.lines[index]

    @property
    def text(self) -> str:
        """The lines as the task has written them, without the names of worker and task."""
        return "\n".join(line.text for line in self.lines)

    def __str__(self) -> str:
        cut = self.dropped - sum(line.dropped for line in self.lines)
        return "\n".join(([left_out(cut)] if cut > 0 else []) + [str(line) for line in self.lines])


def left_out(count: int) -> str:
    """Return a sentence which says that `count` lines were left out."""
    return f"({count:,} {'line was' if count == 1 else 'lines were'} left out)"


def read_line(line: OutputLine) -> LogLine:
    """Convert a line from the scheduler to a `LogLine`."""
    time = datetime.fromtimestamp(min(line.time_us, _LAST_US) / 1e6).astimezone()
    return LogLine(time, OUTPUT_STREAMS[line.stream], line.worker, line.name, line.text, line.dropped)


_LAST_US = 250_000_000_000 * 10**6
"""The latest time of a line, in microseconds since 1970. Later times come from wrong clocks, and may be no valid
dates.
"""


def read_log(lines: Sequence[OutputLine], dropped: int) -> TaskLog:
    """Convert the scheduler's answer to a `TaskLog`, without the empty lines that only count missing lines."""
    return TaskLog(tuple(read_line(line) for line in lines if line.text or not line.dropped), dropped)


@dataclass(frozen=True)
class TaskProgress:
    """The progress of a task, as last reported with `current_task().report(...)`.

    Attributes:
        fraction: the part of the task that is done, from 0 to 1.
        text: the reported description.
        time: the time of the report, by the clock of the worker's host.
        worker: the name of the worker that sent the report.
    """

    fraction: float
    text: str
    time: datetime
    worker: str

    def __str__(self) -> str:
        return f"{100 * self.fraction:.4g}% {self.text}".rstrip()


def read_progress(lines: Sequence[OutputLine], _dropped: int = 0) -> TaskProgress | None:
    """Return the first readable report in these lines; None if no line is readable."""
    for line in lines:
        percent, _, text = line.text.partition("%")
        with contextlib.suppress(ValueError):
            read = read_line(line)
            return TaskProgress(min(1.0, max(0.0, float(percent) / 100)), text.strip(), read.time, read.worker)
    return None


def ask_log(link: ClientLink, task_id: TaskId) -> Answer[TaskLog]:
    """Request the output of a task. Return a future of the output."""
    answer = Answer(read_log)
    link.read_output(task_id, answer.take)
    return answer


def ask_progress(link: ClientLink, task_id: TaskId) -> Answer[TaskProgress | None]:
    """Request the latest progress report of a task. Return a future of the report."""
    answer = Answer(read_progress)
    link.read_output(task_id, answer.take, report=True)
    return answer


def wait(link: ClientLink, answer: Answer[T], timeout: float | None) -> T:
    """Wait for an answer in the calling thread, for at most `timeout` seconds.

    Raises:
        ConfigError: if `timeout` is not a number of seconds.
        TimeoutError: if the scheduler does not answer in time.
    """
    timeout = check_timeout(timeout)
    try:
        return answer.result(timeout)
    except FutureTimeoutError:
        raise timeout_error(link.address, timeout) from None


def timeout_error(address: str, timeout: float | None) -> TimeoutError:
    """Return the error of an answer that did not arrive in time."""
    return TimeoutError(  # in Python 3.10, `concurrent.futures` has a class of its own
        f"the scheduler at {address} did not answer within {timeout:g} seconds: it is busy or unreachable"
    )
