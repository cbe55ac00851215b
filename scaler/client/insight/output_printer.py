"""OutputPrinter: prints the output of tasks, for `Client(stream_output=True)`, in a thread of its own.

The link's thread passes lines to the printer, and never waits for a terminal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

from scaler.client.insight.task_log import LogLine, read_line
from scaler.client.link.requests import OutputListener
from scaler.wire.messages.client import OutputLine

WAITING_MOST = 10_000
"""The number of lines that may wait for a slow terminal. Further lines are left out."""
FINISH_SECONDS = 1.0
"""The longest time that a client which disconnects waits until the queued lines are printed."""


class OutputPrinter:
    """Prints the output of tasks on standard output and error of this process. Each line names worker and task.

    Args:
        follow: a function that passes all further lines of the client's tasks to the given printer.
    """

    def __init__(self, follow: Callable[[OutputListener], None]) -> None:
        self._lines: SimpleQueue[LogLine | None] = SimpleQueue()
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="scaler-output", daemon=True)
        self._thread.start()
        follow(self)

    def take(self, line: OutputLine) -> None:
        """Queue a line for printing."""
        dropped = line.dropped + self._dropped
        if self._lines.qsize() >= WAITING_MOST:
            self._dropped = dropped + 1
            return
        self._dropped = 0
        shown = read_line(line)
        self._lines.put(LogLine(shown.time, shown.stream, shown.worker, shown.task, shown.text, dropped))

    def end(self) -> None:
        """End the thread once the queued lines are printed."""
        self._lines.put(None)

    def finish(self) -> None:
        """End the printer, and wait until the queued lines are printed, for at most `FINISH_SECONDS`."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._thread.join(FINISH_SECONDS)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            stream = sys.stdout if line.stream == "stdout" else sys.stderr
            with contextlib.suppress(Exception):  # it is closed, or cannot write the text: other lines may be written
                stream.write(f"{line}\n")  # in one piece: other threads write too
                stream.flush()
