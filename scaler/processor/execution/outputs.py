"""OutputSender: sends the agent the lines that a task writes, with the number of the task.

The lines and bytes per second are limited. Of the lines above the limit, the last lines are sent when lines may be sent
again, or at the end of the task, and earlier lines are only counted. Of the reports of progress, only the latest is
sent. No task fails or waits because of its output.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from scaler.process.allowance import Allowance
from scaler.process.logs import OURS
from scaler.wire.codec.columns import LINE_CHARACTERS
from scaler.wire.messages.common import OutputStream
from scaler.wire.messages.processor import TaskOutput

BURST_SECONDS = 2
"""After a pause in the output, all lines that are allowed in this many seconds may be sent at once."""
LAST_LINES = 20
"""The number of last lines of a task that are always sent: at the end of the task, if not before."""


class OutputSender:
    """Sends the lines of the tasks of one processor through its uplink (`put`, `put_report`).

    Args:
        words: the progress page; the first word is the number of the executed task.
        lines_per_second: the most lines that are sent per second; with 0, no output is sent.
    """

    def __init__(
        self,
        words: Sequence[int],
        put: Callable[[TaskOutput], None],
        put_report: Callable[[TaskOutput], None],
        lines_per_second: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._words = words
        self._put = put
        self._put_report = put_report
        self._allowance = Allowance(lines_per_second, BURST_SECONDS, clock)
        self._is_off = not lines_per_second
        self._lock = threading.RLock()
        self._number = 0
        self._dropped = 0
        """the number of dropped lines of the present task, all written before the lines in `held`"""
        self.held: deque[TaskOutput] = deque()
        """the latest lines of the present task above the limit, to be sent before its next line or at its end"""

    def send_line(self, stream: OutputStream, text: str) -> bool:
        """Send a line that any thread has written. Return whether it belongs to a task; other lines are only logged."""
        number = self._words[0]
        if self._is_off or not number:
            return False
        text = text[:LINE_CHARACTERS]
        with self._lock:
            if number != self._number:
                self._number, self._dropped = number, 0
                self.held.clear()
            line = TaskOutput(number, stream, time.time_ns() // 1000, 0, text)
            if self._allowance.take(len(text)):
                self._send_held()
                self._put(line)
                return True
            self.held.append(line)
            if len(self.held) > LAST_LINES:
                self.held.popleft()
                self._dropped += 1
        return True

    def belongs_in_log(self, record: logging.LogRecord) -> bool:
        """Filter for log handlers: return whether a record is logged even if the log excludes the output of tasks."""
        return record.name.startswith(OURS) or self._is_off or not self._words[0]

    def report(self, text: str) -> None:
        """Send the progress of the executed task. Safe to call from any thread."""
        number = self._words[0]
        if number and not self._is_off:
            self._put_report(TaskOutput(number, OutputStream.REPORT, time.time_ns() // 1000, 0, text))

    def after_task(self) -> None:
        """Send the held lines of the task that has ended."""
        with self._lock:
            self._send_held()

    def _send_held(self) -> None:
        """Send the held lines, with the number of lines dropped before them. After them, fewer lines may be sent."""
        dropped, self._dropped = self._dropped, 0
        while self.held:
            line = self.held.popleft()
            self._allowance.charge(len(line.text))
            self._put(TaskOutput(line.number, line.stream, line.time_us, dropped, line.text))
            dropped = 0

    def forked(self) -> None:
        """Stop sending lines, in a process that a task has forked. There, lines are only logged."""
        self._is_off = True
        self._lock = threading.RLock()
        self.held.clear()


class OutputHandler(logging.Handler):
    """A handler of the root logger that sends the records that tasks log."""

    def __init__(self, outputs: OutputSender) -> None:
        super().__init__()
        self._outputs = outputs
        self.setFormatter(logging.Formatter("%(levelname)s:%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(OURS):
            return
        with contextlib.suppress(Exception):  # arguments that do not fit; the other handlers complain
            for line in self.format(record).split("\n"):
                self._outputs.send_line(OutputStream.LOGGING, line)
