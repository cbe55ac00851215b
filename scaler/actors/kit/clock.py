"""Time, as actors know it: a function that says how many seconds have passed, and timers that are messages.

No actor reads a clock of its own. The shell of a process passes `time.monotonic`; a test passes a `VirtualClock` and moves
it by hand, so that a whole scheduler runs without a sleep.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from scaler.actors.kit.actor import ActorRef

Clock: TypeAlias = Callable[[], float]
"""Returns monotonic seconds from an arbitrary start."""


class VirtualClock:
    """A clock that moves only when it is told to.

    >>> clock = VirtualClock()
    >>> clock.advance(2.5)
    >>> clock()
    2.5
    """

    def __init__(self, start_seconds: float = 0.0) -> None:
        self._now = start_seconds

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time forward by `seconds`.

        Raises:
            ValueError: if `seconds` is negative; time never runs backwards.
        """
        if seconds < 0:
            raise ValueError(f"time cannot run backwards: {seconds} s")
        self._now += seconds


class Timer:
    """A message that will be sent at a given time, unless it is cancelled first."""

    __slots__ = ("message", "ref")

    def __init__(self, ref: ActorRef, message: Any) -> None:
        self.ref: ActorRef | None = ref
        self.message = message

    def cancel(self) -> None:
        """Never send the message. Any number of times, also after it was sent."""
        self.ref = None
        self.message = None


class Timers:
    """All timers of one dispatcher, the earliest first. A cancelled timer stays in the heap until its time comes."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: float, ref: ActorRef, message: Any) -> Timer:
        timer = Timer(ref, message)
        heapq.heappush(self._heap, (deadline, next(self._order), timer))
        return timer

    def next_deadline(self) -> float | None:
        """Return when the earliest live timer is due, or None when there is none."""
        heap = self._heap
        while heap and heap[0][2].ref is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def fire(self, now: float) -> None:
        """Send the messages of all timers that are due at `now`, in the order of their deadlines."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            if timer.ref is not None:
                timer.ref.send(timer.message)
                timer.cancel()
