"""Uplink: the processor's end of the channel: results on their way out, news of any thread, and what it hears.

Results are gathered: they leave when the handed tasks are done or some milliseconds after the first. Those that are
only wanted together wait for longer, and for what is handed next: to wake the agent takes time of a core that tasks
could use. Those of a range leave together, unless it is late. A second thread sees to that while a task goes on for
long, and sleeps for good while there is nothing to send. Only the main thread reads, also in the middle of a task that
waits for permission to go on: whatever else it hears then is kept for later.

Must never: write to the channel without the lock, or be interrupted by a signal in the middle of a message.
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
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import ResumeTask, TaskOutput
from scaler.wire.messages.rows import pack, row_id
from scaler.wire.messages.worker import RunResult, RunTask

logger = logging.getLogger(__name__)

SEND_AFTER_NS = 2_000_000
"""A result waits no longer than this for those of the next tasks, between tasks."""
SEND_AT_ONCE_US = 6_000
"""The result of a task that took so long waits for none: the agent hands over the next task when it has it."""
TOGETHER_NS = 30_000_000
"""A result that is only wanted with others leaves before a next task that would keep it here for longer than this."""
LEFT_US = 8_000
"""And when the handed tasks are expected to take only so long, and one of them more: so the next ones come in time."""
LATE_SECONDS = 0.1
"""How often the flusher looks for such a result while a task takes longer than those before it. To look takes the
interpreter from the task and gives it back, which is some switches of threads."""
LATE_NS = 100_000_000
"""When a range takes so long, the results of its first rows leave before the others. It is split by that everywhere,
which costs more than to wait: on a busy machine many ranges take some times as long as they should."""
TICK_SECONDS = 0.003
"""How often the flusher looks for other unsent results while tasks run."""
IDLE_TICKS = 2
"""After so many ticks without an unsent result the flusher sleeps until it is woken."""

LONGEST_US = 2**32 - 1

REPORT_NS = 250_000_000
"""Of the reports of tasks, one travels in this time at the most: the latest."""

_RESUME = Batch[ResumeTask]


class UnsentRows:
    """The results of the rows of a range that have not left. Filled by the main thread; any thread may have them leave.

    Args:
        task: the range.
    """

    __slots__ = ("_row", "_since_ns", "blocks", "failure", "statuses", "task")

    def __init__(self, task: RunTask) -> None:
        self.task = task
        self.blocks: list[bytes] = []
        """of the rows that have ended, in their order"""
        self.statuses: dict[int, int] = {}
        """of rows that have not succeeded, by number; set before their block is there"""
        self.failure = ""
        """type and message of one that has failed"""
        self._row = 0
        """the first one whose result has not left"""
        self._since_ns = perf_counter_ns()

    def skip(self) -> None:
        """The result of the next row leaves by itself; those before it have left."""
        self._row += 1

    @property
    def is_late(self) -> bool:
        """Whether its results have waited for so long that those that are there leave by themselves."""
        return perf_counter_ns() - self._since_ns > LATE_NS

    def take(self) -> RunResult | None:
        """Return what there is as one result."""
        blocks, task, first = self.blocks, self.task, self._row
        count = len(blocks)
        if not count:
            return None
        taken = blocks[:count]
        del blocks[:count]  # others may have come
        self._row += count
        now_ns = perf_counter_ns()
        duration_us, self._since_ns = min((now_ns - self._since_ns) // 1000, LONGEST_US), now_ns
        statuses = b""
        if self.statuses:
            statuses = bytes(self.statuses.get(row, 0) for row in range(first, first + count))
            if not any(statuses):
                statuses = b""
        task_id = row_id(task.task_id, first)
        payload = pack(taken)
        return RunResult(
            task_id,
            task.worker,
            task.attempt,
            0,
            payload,
            duration_us,
            (),
            failure=self.failure if statuses else "",
            rows=count,
            statuses=statuses,
        )


class Uplink:
    """What the processor and the agent say to each other."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._unsent: deque[RunResult | TaskOutput] = deque()
        self._reports: deque[TaskOutput] = deque(maxlen=1)
        self._next_report_ns = 0
        self._first_unsent_ns = 0
        self.is_patient = False
        """whether there are unsent results, and all of them are only wanted together"""
        self._function_id: bytes = b""
        """of which function they are"""
        self._rows: UnsentRows | None = None
        """of the range that runs"""
        self._lock = threading.Lock()
        self._has_results = threading.Event()
        self._is_flusher_asleep = True
        self._is_flusher_off = True
        """whether it is asleep and does not look for late results"""
        self._received: deque[Batch[Any]] = deque()
        self._permitted = 0

    def start(self) -> None:
        """Start the second thread."""
        threading.Thread(target=self._flush_now_and_then, name="scaler-flusher", daemon=True).start()

    # Out

    def put(self, result: RunResult, is_last: bool) -> None:
        """Send a result soon. `is_last`: the caller flushes right after."""
        unsent = self._unsent
        unsent.append(result)
        if is_last and not self.is_patient:
            return
        # Frames are perhaps memory that the task has kept, and that the next task changes.
        if result.frames or result.duration_us > SEND_AT_ONCE_US or self.is_patient:
            self.send_results()
            return
        now_ns = perf_counter_ns()
        if len(unsent) == 1:
            self._first_unsent_ns = now_ns
            if self._is_flusher_asleep:
                self._has_results.set()
        elif now_ns - self._first_unsent_ns > SEND_AFTER_NS:
            self.send_results()

    def put_with_others(self, result: RunResult, function_id: ObjectId, left: int = 0) -> None:
        """Send a result of this function, which is only wanted with others, when several are there or `hear` waits.

        Args:
            left: how many of the tasks that were handed with it have not begun.
        """
        unsent = self._unsent
        if result.frames or (unsent and not self.is_patient):
            self.put(result, is_last=False)
            return
        now_ns = perf_counter_ns()
        if not unsent:
            self._first_unsent_ns = now_ns
        unsent.append(result)
        duration_us = result.duration_us  # the next one takes as long
        is_last_chance = left and (left - 1) * duration_us < LEFT_US <= left * duration_us
        if is_last_chance or now_ns - self._first_unsent_ns + 1000 * duration_us > TOGETHER_NS:
            self.send_results()
            return
        self._function_id = function_id
        self.is_patient = True
        if self._is_flusher_off:
            self._has_results.set()

    def open_rows(self, task: RunTask) -> UnsentRows:
        """A range begins. Its results may wait for its end, but not for a row that takes long."""
        rows = self._rows = UnsentRows(task)
        if not self._unsent:
            self._be_patient()
        return rows

    def _be_patient(self) -> None:
        self._first_unsent_ns = perf_counter_ns()
        self.is_patient = True
        if self._is_flusher_off:
            self._has_results.set()

    def put_row_alone(self, result: RunResult) -> None:
        """Send the result of a row that is not like the others, behind theirs."""
        rows = self._rows
        with self._lock:
            self._send([*self._all_unsent(), result])
            if rows is not None:
                rows.skip()

    def close_rows(self, left: int) -> None:
        """A range has ended.

        Args:
            left: how many of the tasks that were handed with it have not begun.
        """
        with self._lock:
            rows, self._rows = self._rows, None
        result = None if rows is None else rows.take()
        if rows is None or result is None:
            return
        if not (rows.task.priority or result.statuses):  # else somebody waits for it
            self.put_with_others(result, rows.task.function_id, left)
        else:
            self.put(result, not left)

    def _all_unsent(self) -> list[RunResult | TaskOutput]:
        """Take all that there is, the rows of a range that runs among it; under the lock."""
        unsent, rows = self._unsent, self._rows
        items = [unsent.popleft() for _ in range(len(unsent))]
        ended = None if rows is None else rows.take()
        if ended is not None:
            items.append(ended)
        return items

    def send_before(self, task: RunTask) -> None:
        """A range begins. It may take longer than those whose results wait, if it is of another function."""
        if task.function_id != self._function_id:
            self.send_results()

    def put_line(self, line: TaskOutput) -> None:
        """Send a line of a task soon, before the result of that task; for any thread."""
        if not self._unsent:
            self._first_unsent_ns = perf_counter_ns()
        self.is_patient = False
        self._unsent.append(line)
        if self._is_flusher_asleep:
            self._has_results.set()

    def put_report(self, report: TaskOutput) -> None:
        """Send how far a task is, unless it says something newer before that may travel; for any thread."""
        self._reports.append(report)
        if not self._take_report(perf_counter_ns()) and self._is_flusher_asleep:
            self._has_results.set()

    def send_results(self) -> None:
        """Send all results that there are."""
        with self._lock:
            unsent = self._unsent
            self.is_patient = False
            rows = self._rows
            if rows is not None:
                items = self._all_unsent() if rows.is_late else [unsent.popleft() for _ in range(len(unsent))]
                if items:
                    self._send(items)
                self._be_patient()
            elif len(unsent) == 1:  # as most often
                self._send([unsent.popleft()])
            elif unsent:
                self._send([unsent.popleft() for _ in range(len(unsent))])

    def send_hurried(self) -> None:
        """Send all results, unless they are only wanted together: then `hear` sees to them."""
        if not self.is_patient:
            self.send_results()

    def say(self, items: list[Any]) -> None:
        """Send items after all results that there are; for any thread."""
        with self._lock:
            self._send([*self._all_unsent(), *items])

    def _send(self, items: list[Any]) -> None:
        for header, frames in encode(PROCESSOR_TO_AGENT, items):
            self._channel.send(header, frames)

    def _flush_now_and_then(self) -> None:
        """The second thread: while tasks run, a result waits for no more than a tick."""
        with contextlib.suppress(ChannelClosedError):  # the agent is gone: the main thread sees to that
            while True:
                self._is_flusher_asleep = True
                self._await_hurried()
                self._is_flusher_asleep = False
                idle_ticks = 0
                while idle_ticks < IDLE_TICKS:
                    sleep(TICK_SECONDS)
                    if self._reports:
                        idle_ticks = 0
                        self._take_report(perf_counter_ns())
                    is_due = self._unsent and not self.is_patient
                    idle_ticks = 0 if is_due else idle_ticks + 1
                    if is_due:
                        self.send_results()

    def _await_hurried(self) -> None:
        """Return when there is something that must leave soon. Until then see to results that are late."""
        idle_looks = 0
        while not self._reports:
            self._is_flusher_off = idle_looks >= IDLE_TICKS
            if self.is_patient:  # perhaps since then, and whoever put it thinks that it is looked at
                self._is_flusher_off = False
            if self._has_results.wait(None if self._is_flusher_off else LATE_SECONDS):
                self._has_results.clear()
                if not self.is_patient:
                    return
                idle_looks = 0
            elif self.is_patient:
                idle_looks = 0
                if perf_counter_ns() - self._first_unsent_ns > TOGETHER_NS:
                    self.send_results()
            else:
                idle_looks += 1

    def _take_report(self, now_ns: int) -> bool:
        """Have the latest report leave if it may. Return whether that is so. Two threads may call it at once."""
        if now_ns < self._next_report_ns:
            return False
        self._next_report_ns = now_ns + REPORT_NS
        with contextlib.suppress(IndexError):
            self.put_line(self._reports.pop())
        return True

    def leave(self) -> None:
        """In a forked process: send nothing, receive nothing, and never wait."""
        self._lock = threading.Lock()  # the other one may have been held by a thread that does not exist here
        self._unsent.clear()
        self._rows = None
        self._channel.close()

    # In

    def hear(self) -> Iterator[Batch[Any]]:
        """Go through what the agent says, in its order; wait for it if need be.

        Raises:
            ChannelClosedError: when the agent is gone.
        """
        received = self._received
        while True:
            while received:
                yield received.popleft()
            if self._unsent and not self._channel.has_come():
                self.send_results()
            self._receive()

    def await_permission(self, number: int) -> None:
        """Wait until the agent lets the task with this number go on; for the main thread in the middle of that task.

        Raises:
            TaskInterrupt: if the agent is gone, so that the task is not wanted any more.
        """
        try:
            while self._permitted != number:
                self._receive()
        except ChannelClosedError:
            raise TaskInterrupt("the agent is gone") from None

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
