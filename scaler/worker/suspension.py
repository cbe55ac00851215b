"""Suspension: when the process of a task that waits for others is stopped, and when it goes on.

Used by the slot, with its processors; sends to these. Only with hard suspension, since otherwise no wait has a number.

    client in the task --ClientResting--> scheduler --ProcessorNews--> slot --PauseProcessor--> processor, nursery

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
from scaler.worker.crew import Work
from scaler.worker.messages import PauseProcessor

BREATH_SECONDS = 5.0
"""How long a process is stopped at most; ZeroMQ gives a connection up after 20 s of silence."""


@message
class BreathDue:
    """It was stopped for as long as it may be."""

    number: int
    stops: int


class Suspension:
    """Stops and continues the processors of one slot.

    Args:
        now: the present, in seconds.
        schedule: has the slot get a message after some seconds.
    """

    def __init__(self, now: Callable[[], float], schedule: Callable[[float, object], object]) -> None:
        self._now = now
        self._schedule = schedule

    def begin(self, work: Work, wait: int, timeout_seconds: float) -> None:
        """The task of this processor begins to wait."""
        self.end(work)
        if not work.unwanted:  # what shall end does not wait for long
            work.wait = wait
            work.wait_ends_at = self._now() + timeout_seconds

    def end(self, work: Work) -> None:
        """It does not wait any more, or shall not."""
        work.wait, work.wait_ends_at = 0, inf
        self._continue(work)

    def hear(self, work: Work, news: ProcessorNews) -> None:
        """The scheduler says whether anything is on the way to the process."""
        if work.waiting is None or not work.wait or news.wait != work.wait:
            return  # of another wait
        if news.has_news:
            self._continue(work)
        elif not work.is_stopped and self._now() < work.wait_ends_at:
            work.is_stopped = True
            work.stops += 1
            work.processor.send(PauseProcessor(work.number, True))
            seconds = min(BREATH_SECONDS, work.wait_ends_at - self._now())
            self._schedule(seconds, BreathDue(work.number, work.stops))

    def breathe(self, work: Work, due: BreathDue) -> None:
        """It was stopped for long enough, or its wait ends by itself."""
        if work.is_stopped and work.stops == due.stops:
            self._continue(work)

    def _continue(self, work: Work) -> None:
        if work.is_stopped:
            work.is_stopped = False
            work.processor.send(PauseProcessor(work.number, False))
