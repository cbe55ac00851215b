"""Time, as actors know it: a function that returns monotonic seconds, and timers that are messages.

No actor reads a clock of its own. A process passes a clock such as `time.monotonic` to its dispatcher. A test passes a
clock that it moves by hand, so that a whole scheduler runs without a sleep.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from scaler.kit.actor import Actor, ActorRef

Clock: TypeAlias = Callable[[], float]
"""A function that returns monotonic seconds from an arbitrary start."""


SWEEP_FROM = 1024
"""The least number of cancelled timers in the heap before they are removed from it."""


class Timer:
    """A message that is sent at a given time, unless it is cancelled or its actor has ended by then."""

    __slots__ = ("_owner", "_timers", "message", "ref")

    def __init__(self, timers: Timers, ref: ActorRef, message: Any, owner: Actor | None) -> None:
        self.ref: ActorRef | None = ref
        self.message = message
        self._owner = owner
        self._timers = timers

    @property
    def is_pending(self) -> bool:
        """Whether the message is still to be sent: it was neither sent nor cancelled."""
        return self.ref is not None

    def cancel(self) -> None:
        """Cancel the message. May be called several times; ignored after the message was sent."""
        if self.ref is not None:
            self.ref = self.message = self._owner = None
            self._timers.count_cancelled()

    def fire(self) -> None:
        """Send the message, unless it was cancelled or its actor has ended."""
        ref, message, owner = self.ref, self.message, self._owner
        if ref is None:
            return
        self.ref = self.message = self._owner = None
        if ref._actor is owner if owner is not None else not ref.is_stopped():
            ref.send(message)


class Timers:
    """All timers of one dispatcher, the earliest first.

    A cancelled timer stays in the heap, because a search for it would take long. Once most timers are cancelled, all
    cancelled ones are removed together.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._cancelled = 0

    def __len__(self) -> int:
        """Return the number of timers that are not cancelled."""
        return len(self._heap) - self._cancelled

    def add(self, deadline: float, ref: ActorRef, message: Any, owner: Actor | None = None) -> Timer:
        """Send `message` to `ref` at `deadline`; with an `owner`, only if `owner` is still the actor at `ref`."""
        timer = Timer(self, ref, message, owner)
        heapq.heappush(self._heap, (deadline, next(self._order), timer))
        return timer

    def next_deadline(self) -> float | None:
        """Return when the earliest timer that is not cancelled is due; None if there is no such timer."""
        heap = self._heap
        while heap and heap[0][2].ref is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def fire(self, now: float) -> None:
        """Send the messages of all timers that are due at `now`, in the order of their deadlines."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            if timer.ref is None:
                self._cancelled -= 1
            else:
                timer.fire()

    def count_cancelled(self) -> None:
        """Count one more cancelled timer. If most timers in the heap are cancelled, remove the cancelled ones."""
        self._cancelled += 1
        if self._cancelled > SWEEP_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].ref is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
