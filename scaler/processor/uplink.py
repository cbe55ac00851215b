"""Uplink: the processor's end of the channel: sends results and output of any thread, and receives tasks and objects.

Results are collected and sent when the assigned tasks are done, or some milliseconds after the first result. Results
that are only useful together wait for the next tasks, because waking the agent takes CPU time. The results of a range
are sent together. If some must leave earlier, the range ends: the row that runs becomes a task of its own, and no later
row starts. A second thread sends results while a task runs for long. Only the main thread reads from the channel. While
a task waits for permission to resume, the main thread keeps all other messages for later.

Messages are written under a lock, and no signal handler may interrupt a write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from time import perf_counter_ns, sleep
from typing import Any

from scaler.errors import ProtocolError, TaskInterrupt
from scaler.ids import ObjectId
from scaler.processor.channel import Channel, ChannelClosedError
from scaler.processor.execution.meter import elapsed_us
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import ResumeTask, TaskOutput
from scaler.wire.messages.rows import pack
from scaler.wire.messages.worker import RunResult, RunTask

logger = logging.getLogger(__name__)

SEND_AFTER_NS = 2_000_000
"""The longest time for which a result waits for the results of the next tasks, to be sent with them."""
SEND_AT_ONCE_US = 6_000
"""If a task takes longer than this, its result is sent at once, so that the agent can assign the next task."""
BATCH_NS = 30_000_000
"""The longest wait of results that are only useful together. They wait for the next task only if it will end in this
time.
"""
REMAINING_US = 8_000
"""If the remaining tasks will take less than this, all results are sent, so that new tasks arrive in time."""
LATE_SECONDS = 0.1
"""How often the flusher checks for late results. Each check takes the interpreter away from the task for a moment."""
LATE_NS = 100_000_000
"""The age at which results are sent before their range ends; not earlier, because a range in parts costs more."""
TICK_SECONDS = 0.003
"""How often the flusher checks for other unsent results while tasks run."""
IDLE_TICKS = 2
"""The number of ticks without an unsent result after which the flusher sleeps until another thread wakes it."""

REPORT_NS = 250_000_000
"""The shortest time between two reports of progress. Of the reports in between, only the latest is sent."""

_RESUME = Batch[ResumeTask]


class UnsentRows:
    """The unsent results of the rows of a range. The main thread adds results; any thread may end the range."""

    __slots__ = ("_since_ns", "blocks", "failure", "is_over", "n_sent", "statuses", "task")

    def __init__(self, task: RunTask) -> None:
        self.task = task
        self.blocks: list[bytes] = []
        """the results of ended rows, in the order of the rows"""
        self.statuses: dict[int, int] = {}
        """row number -> status of each row that has not succeeded; set before the block of the row is added"""
        self.failure = ""
        """type and message of the exception of the row that failed last"""
        self.is_over = False
        """whether the range has ended early, so that no further row of the range starts"""
        self.n_sent = 0
        """the number of rows whose results were sent when the range ended early"""
        self._since_ns = perf_counter_ns()

    @property
    def is_late(self) -> bool:
        """Whether the results have waited so long that they are sent before the end of the range."""
        return perf_counter_ns() - self._since_ns > LATE_NS

    def end(self) -> RunResult | None:
        """End the range early. Return the results of the rows that have ended; None if the range had ended before.

        The next row may be running, or may still be skipped by the main thread. No later row starts.
        """
        if self.is_over:
            return None
        self.is_over = True  # before the rows are counted: at most the next row has started by then
        count = self.n_sent = len(self.blocks)
        taken = self.blocks[:count]
        del self.blocks[:count]  # another may have been added
        return self._result(taken, count + 1 if count < self.task.rows else 0)

    def finish(self) -> RunResult:
        """Return the results of all rows."""
        return self._result(self.blocks, 0)

    def _result(self, blocks: list[bytes], running: int) -> RunResult:
        task, count = self.task, len(blocks)
        duration_us = elapsed_us(self._since_ns, perf_counter_ns())
        statuses = bytes(self.statuses.get(row, 0) for row in range(count)) if self.statuses else b""
        statuses = statuses if any(statuses) else b""
        return RunResult(
            task.task_id,
            task.worker,
            task.attempt,
            0,
            pack(blocks),
            duration_us,
            (),
            failure=self.failure if statuses else "",
            rows=count,
            statuses=statuses,
            running=running,
        )


class Uplink:
    """Sends items to the agent, and receives messages from the agent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._unsent: deque[RunResult | TaskOutput] = deque()
        self._reports: deque[TaskOutput] = deque(maxlen=1)
        self._next_report_ns = 0
        self._first_unsent_ns = 0
        self.is_batching = False
        """whether there are unsent results, and all of them may wait for further results"""
        self._function_id: bytes = b""
        """the function of the unsent results that wait for further results"""
        self._rows: UnsentRows | None = None
        """the unsent results of the running range; None while no range runs"""
        self._lock = threading.Lock()
        self._has_results = threading.Event()
        self._is_flusher_asleep = True
        self._is_flusher_off = True
        """whether the flusher is asleep and does not check for late results"""
        self._received: deque[Batch[Any]] = deque()
        self._permitted = 0

    def start(self) -> None:
        """Start the flusher thread."""
        threading.Thread(target=self._flush_periodically, name="scaler-flusher", daemon=True).start()

    # Out

    def put(self, result: RunResult, is_last: bool) -> None:
        """Queue a result, or send it at once. The last of a batch (`is_last`) is queued; the caller sends the queue."""
        unsent = self._unsent
        unsent.append(result)
        if is_last and not self.is_batching:
            return
        # Frames may be memory that the task has kept and the next task changes.
        if result.frames or result.duration_us > SEND_AT_ONCE_US or self.is_batching:
            self.send_results()
            return
        now_ns = perf_counter_ns()
        if len(unsent) == 1:
            self._first_unsent_ns = now_ns
            if self._is_flusher_asleep:
                self._has_results.set()
        elif now_ns - self._first_unsent_ns > SEND_AFTER_NS:
            self.send_results()

    def put_batched(self, result: RunResult, function_id: ObjectId, left: int = 0) -> None:
        """Queue a result that is only useful with others of its function. A later call, or `receive`, sends the queue.

        Args:
            left: how many tasks of the same batch have not started.
        """
        unsent = self._unsent
        if result.frames or (unsent and not self.is_batching):
            self.put(result, is_last=False)
            return
        now_ns = perf_counter_ns()
        if not unsent:
            self._first_unsent_ns = now_ns
        unsent.append(result)
        duration_us = result.duration_us  # the next one takes as long
        is_last_chance = left and (left - 1) * duration_us < REMAINING_US <= left * duration_us
        if is_last_chance or now_ns - self._first_unsent_ns + 1000 * duration_us > BATCH_NS:
            self.send_results()
            return
        self._function_id = function_id
        self.is_batching = True
        if self._is_flusher_off:
            self._has_results.set()

    def open_rows(self, task: RunTask) -> UnsentRows:
        """Start a range. Its results may wait for the end of the range, but not for a row that takes long."""
        rows = self._rows = UnsentRows(task)
        if not self._unsent:
            self._start_batching()
        return rows

    def _start_batching(self) -> None:
        self._first_unsent_ns = perf_counter_ns()
        self.is_batching = True
        if self._is_flusher_off:
            self._has_results.set()

    def end_rows(self) -> None:
        """End the running range early, because its present row has a result that leaves alone."""
        with self._lock:
            items = self._take_unsent()
            if items:
                self._send(items)

    def close_rows(self, left: int) -> bool:
        """Queue the results of the range whose last row has ended. Return False if the range had ended early.

        Args:
            left: how many tasks of the batch have not started.
        """
        with self._lock:
            rows, self._rows = self._rows, None
        if rows is None or rows.is_over:
            return False
        result = rows.finish()
        if not (rows.task.priority or result.statuses):  # else a caller waits for it
            self.put_batched(result, rows.task.function_id, left)
        else:
            self.put(result, not left)
        return True

    def _take_unsent(self) -> list[RunResult | TaskOutput]:
        """Remove and return all unsent items. This ends the running range, if any. The caller holds the lock."""
        unsent, rows = self._unsent, self._rows
        items = [unsent.popleft() for _ in range(len(unsent))]
        ended = None if rows is None else rows.end()
        if ended is not None:
            items.append(ended)
        return items

    def send_before(self, task: RunTask) -> None:
        """Send the unsent results of other functions before a range runs, because they should not wait for the end of
        the range.
        """
        if task.function_id != self._function_id:
            self.send_results()

    def put_line(self, line: TaskOutput) -> None:
        """Queue a line of output, to be sent soon and before the result of its task. Safe to call from any thread."""
        if not self._unsent:
            self._first_unsent_ns = perf_counter_ns()
        self.is_batching = False
        self._unsent.append(line)
        if self._is_flusher_asleep:
            self._has_results.set()

    def put_report(self, report: TaskOutput) -> None:
        """Queue a report of a task's progress; a newer report may replace it. Safe to call from any thread."""
        self._reports.append(report)
        if not self._take_report(perf_counter_ns()) and self._is_flusher_asleep:
            self._has_results.set()

    def send_results(self) -> None:
        """Send all unsent results, but those of a running range only if they are late."""
        with self._lock:
            unsent = self._unsent
            self.is_batching = False
            rows = self._rows
            if rows is not None and not rows.is_over:
                items = self._take_unsent() if rows.is_late else [unsent.popleft() for _ in range(len(unsent))]
                if items:
                    self._send(items)
                if not rows.is_over:
                    self._start_batching()
            elif len(unsent) == 1:  # as most often
                self._send([unsent.popleft()])
            elif unsent:
                self._send([unsent.popleft() for _ in range(len(unsent))])

    def send_urgent(self) -> None:
        """Send all unsent results, unless they are only useful together. In that case `receive` sends them."""
        if not self.is_batching:
            self.send_results()

    def send(self, items: list[Any]) -> None:
        """Send all unsent results, and then `items`. Safe to call from any thread."""
        with self._lock:
            self._send([*self._take_unsent(), *items])

    def _send(self, items: list[Any]) -> None:
        for header, frames in encode(PROCESSOR_TO_AGENT, items):
            self._channel.send(header, frames)

    def _flush_periodically(self) -> None:
        """Run the flusher thread: while tasks run, an unsent result is sent after one tick at most."""
        with contextlib.suppress(ChannelClosedError):  # the agent has ended: the main thread handles that
            while True:
                self._is_flusher_asleep = True
                self._await_urgent()
                self._is_flusher_asleep = False
                idle_ticks = 0
                while idle_ticks < IDLE_TICKS:
                    sleep(TICK_SECONDS)
                    if self._reports:
                        idle_ticks = 0
                        self._take_report(perf_counter_ns())
                    is_due = self._unsent and not self.is_batching
                    idle_ticks = 0 if is_due else idle_ticks + 1
                    if is_due:
                        self.send_results()

    def _await_urgent(self) -> None:
        """Wait for an item that must be sent soon. Meanwhile send late results."""
        idle_checks = 0
        while not self._reports:
            self._is_flusher_off = idle_checks >= IDLE_TICKS
            if self.is_batching:  # perhaps set since then, by a thread that relies on the checks
                self._is_flusher_off = False
            if self._has_results.wait(None if self._is_flusher_off else LATE_SECONDS):
                self._has_results.clear()
                if not self.is_batching:
                    return
                idle_checks = 0
            elif self.is_batching:
                idle_checks = 0
                if perf_counter_ns() - self._first_unsent_ns > BATCH_NS:
                    self.send_results()
            else:
                idle_checks += 1

    def _take_report(self, now_ns: int) -> bool:
        """Queue the latest report and return True; False if it is too early for a report. Called in two threads."""
        if now_ns < self._next_report_ns:
            return False
        self._next_report_ns = now_ns + REPORT_NS
        with contextlib.suppress(IndexError):
            self.put_line(self._reports.pop())
        return True

    def detach(self) -> None:
        """Disconnect a forked process: this uplink then sends and receives nothing, and never waits."""
        self._lock = threading.Lock()  # a thread that does not exist here may have held the old one
        self._unsent.clear()
        self._rows = None
        self._channel.close()

    # In

    def receive(self) -> Iterator[Batch[Any]]:
        """Yield the agent's messages in order; wait for each. Raises `ChannelClosedError` when the channel ends."""
        received = self._received
        while True:
            while received:
                yield received.popleft()
            if self._unsent and not self._channel.has_input():
                self.send_results()
            self._receive()

    def await_permission(self, number: int) -> None:
        """Wait, in the main thread, until the agent permits the task with this number to resume.

        Raises:
            TaskInterrupt: if the agent has closed the channel.
        """
        try:
            while self._permitted != number:
                self._receive()
        except ChannelClosedError:
            raise TaskInterrupt("the agent has ended") from None

    def _receive(self) -> None:
        for header, frames in self._channel.receive():
            try:
                batches = decode(AGENT_TO_PROCESSOR, header, frames)
            except ProtocolError:
                logger.exception("a message of the agent cannot be read")  # both ends are one package: cannot happen
                os._exit(70)
            for batch in batches:
                if type(batch) is _RESUME:
                    self._permitted = batch[-1].number
                else:
                    self._received.append(batch)
