"""Uplink: the processor's end of the channel: results on their way out, news of any thread, and what it hears.

Results are gathered: they leave when the handed tasks are done or some milliseconds after the first. A second thread
sees to that while a task goes on for long, and sleeps for good while there is nothing to send. Only the main thread
reads, also in the middle of a task that waits for permission to go on: whatever else it hears then is kept for later.

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
from scaler.processor.channel import Channel, ChannelClosedError
from scaler.wire.codec import decode, encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import ResumeTask, TaskOutput
from scaler.wire.messages.worker import RunResult

logger = logging.getLogger(__name__)

SEND_AFTER_NS = 2_000_000
"""A result waits no longer than this for those of the next tasks, between tasks."""
SEND_AT_ONCE_US = 6_000
"""The result of a task that took so long waits for none: the agent hands over the next task when it has it."""
TICK_SECONDS = 0.003
"""How often the flusher looks for unsent results while tasks run."""
IDLE_TICKS = 8
"""After so many ticks without an unsent result the flusher sleeps until it is woken."""

REPORT_NS = 250_000_000
"""Of the reports of tasks, one travels in this time at the most: the latest."""

_RESUME = Batch[ResumeTask]


class Uplink:
    """What the processor and the agent say to each other."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._unsent: deque[RunResult | TaskOutput] = deque()
        self._reports: deque[TaskOutput] = deque(maxlen=1)
        self._next_report_ns = 0
        self._first_unsent_ns = 0
        self._lock = threading.Lock()
        self._has_results = threading.Event()
        self._is_flusher_asleep = True
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
        # Frames are perhaps memory that the task has kept, and that the next task changes.
        if result.frames or result.duration_us > SEND_AT_ONCE_US:
            self.send_results()
            return
        now_ns = perf_counter_ns()
        if len(unsent) == 1:
            self._first_unsent_ns = now_ns
            if self._is_flusher_asleep and not is_last:
                self._has_results.set()
        elif now_ns - self._first_unsent_ns > SEND_AFTER_NS:
            self.send_results()

    def put_line(self, line: TaskOutput) -> None:
        """Send a line of a task soon, before the result of that task; for any thread."""
        if not self._unsent:
            self._first_unsent_ns = perf_counter_ns()
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
            results = [unsent.popleft() for _ in range(len(unsent))]
            if results:
                self._send(results)

    def say(self, items: list[Any]) -> None:
        """Send items after all results that there are; for any thread."""
        with self._lock:
            unsent = self._unsent
            self._send([*(unsent.popleft() for _ in range(len(unsent))), *items])

    def _send(self, items: list[Any]) -> None:
        for header, frames in encode(PROCESSOR_TO_AGENT, items):
            self._channel.send(header, frames)

    def _flush_now_and_then(self) -> None:
        """The second thread: while tasks run, a result waits for no more than a tick."""
        with contextlib.suppress(ChannelClosedError):  # the agent is gone: the main thread sees to that
            while True:
                self._is_flusher_asleep = True
                if not self._reports:
                    self._has_results.wait()
                self._has_results.clear()
                self._is_flusher_asleep = False
                idle_ticks = 0
                while idle_ticks < IDLE_TICKS:
                    sleep(TICK_SECONDS)
                    if self._reports:
                        idle_ticks = 0
                        self._take_report(perf_counter_ns())
                    idle_ticks = 0 if self._unsent else idle_ticks + 1
                    if self._unsent:
                        self.send_results()

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
