"""Suspension: when the process of a task that waits for others is stopped, and when it goes on.

Used by the slot, with its processors; sends to these. Only with hard suspension, since otherwise no wait has a number.

    client in the task --ClientResting--> scheduler --ProcessorNews--> slot --SuspendProcessor--> processor, fork server

A stopped process hears nothing. So the scheduler says when it may be stopped, which is when all that its client has
said has arrived and nothing is on the way to it; and says when anything is. Both come on one connection, in order.

Whatever is lost on the way is made good by a breath: every few seconds the process goes on until it has said again that
it only waits. That also answers the signs of life by which ZeroMQ knows that a connection stands, and renews a
connection that was cut.

Must never: leave a process stopped whose task shall end, or whose wait is over.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from scaler.message import message
from scaler.wire.messages.worker import ProcessorNews
from scaler.worker.messages import SuspendProcessor
from scaler.worker.processors import ProcessorState

BREATH_SECONDS = 5.0
"""How long a process is stopped at most; ZeroMQ gives a connection up after 20 s of silence."""


@message
class BreathDue:
    """It was stopped for as long as it may be."""

    number: int
    suspensions: int


class Suspension:
    """Stops and continues the processors of one slot.

    Args:
        now: the present, in seconds.
        schedule: has the slot get a message after some seconds.
    """

    def __init__(self, now: Callable[[], float], schedule: Callable[[float, object], object]) -> None:
        self._now = now
        self._schedule = schedule

    def begin(self, processor: ProcessorState, wait: int, timeout_seconds: float) -> None:
        """The task of this processor begins to wait."""
        self.end(processor)
        if not processor.unwanted:  # what shall end does not wait for long
            processor.wait = wait
            processor.wait_ends_at = self._now() + timeout_seconds

    def end(self, processor: ProcessorState) -> None:
        """It does not wait any more, or shall not."""
        processor.wait, processor.wait_ends_at = 0, inf
        self._continue(processor)

    def hear(self, processor: ProcessorState, news: ProcessorNews) -> None:
        """The scheduler says whether anything is on the way to the process."""
        if processor.waiting is None or not processor.wait or news.wait != processor.wait:
            return  # of another wait
        if news.has_news:
            self._continue(processor)
        elif not processor.is_suspended and self._now() < processor.wait_ends_at:
            processor.is_suspended = True
            processor.suspensions += 1
            processor.proxy.send(SuspendProcessor(processor.number, True))
            seconds = min(BREATH_SECONDS, processor.wait_ends_at - self._now())
            self._schedule(seconds, BreathDue(processor.number, processor.suspensions))

    def breathe(self, processor: ProcessorState, due: BreathDue) -> None:
        """It was stopped for long enough, or its wait ends by itself."""
        if processor.is_suspended and processor.suspensions == due.suspensions:
            self._continue(processor)

    def _continue(self, processor: ProcessorState) -> None:
        if processor.is_suspended:
            processor.is_suspended = False
            processor.proxy.send(SuspendProcessor(processor.number, False))
