"""OutputSender: sends the lines that a task writes to the agent, with the number of the task.

Used by the streams and by the handler of `logging` that stands here; puts lines into the uplink, before the result of
the task. So many lines and bytes travel in a second. Of the others the last ones of each task travel at its end, and
the rest is counted. Of reports the latest ones travel. A task that writes nothing costs nothing here.

Must never: let a task fail because of its text, or wait.
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
"""After some silence, as many lines travel at once as usually in so many seconds."""
LAST_LINES = 20
"""So many of the last lines of a task travel in any case, when it ends."""


class OutputSender:
    """The lines of the tasks of one processor.

    Args:
        words: the progress page; the first one is the number of the task that is executed.
        put: puts an item into the uplink.
        put_report: puts a report into the uplink.
        lines_per_second: so many lines travel in a second; 0: none.
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
        """lines of this task that were left out, before those that are held"""
        self.held: deque[TaskOutput] = deque()
        """lines of this task that travel when it ends, if they are the last ones then"""

    def say(self, stream: OutputStream, text: str) -> bool:
        """A line was written, in any thread. Return whether it is of a task: another one is only in the log."""
        number = self._words[0]
        if self._is_off or not number:
            return False
        text = text[:LINE_CHARACTERS]
        with self._lock:
            if number != self._number:
                self._number, self._dropped = number, 0
                self.held.clear()
            if self._allowance.take(len(text)):
                dropped, self._dropped = self._dropped + len(self.held), 0
                self.held.clear()
                self._put(TaskOutput(number, stream, time.time_ns() // 1000, dropped, text))
                return True
            self.held.append(TaskOutput(number, stream, time.time_ns() // 1000, 0, text))
            if len(self.held) > LAST_LINES:
                self.held.popleft()
                self._dropped += 1
        return True

    def leaves_to_log(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be in the log where that has nothing of what tasks write: a filter."""
        return record.name.startswith(OURS) or self._is_off or not self._words[0]

    def report(self, text: str) -> None:
        """The task says how far it is, in any thread."""
        number = self._words[0]
        if number and not self._is_off:
            self._put_report(TaskOutput(number, OutputStream.REPORT, time.time_ns() // 1000, 0, text))

    def after_task(self) -> None:
        """A task ends, and some of its lines are held: say them, and how many are missing before them."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
            while self.held:
                line = self.held.popleft()
                self._put(TaskOutput(line.number, line.stream, line.time_us, dropped, line.text))
                dropped = 0

    def forked(self) -> None:
        """In a forked process: what is written here is only in the log."""
        self._is_off = True
        self._lock = threading.RLock()
        self.held.clear()


class OutputHandler(logging.Handler):
    """Takes what tasks log, as the root logger hands it on."""

    def __init__(self, outputs: OutputSender) -> None:
        super().__init__()
        self._outputs = outputs
        self.setFormatter(logging.Formatter("%(levelname)s:%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(OURS):
            return
        with contextlib.suppress(Exception):  # arguments that do not fit; the other handlers complain
            for line in self.format(record).split("\n"):
                self._outputs.say(OutputStream.LOGGING, line)
