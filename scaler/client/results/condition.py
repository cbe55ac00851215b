"""Condition: what a future's threads wait for.

Used by `ScalerFuture` in place of the standard library's `threading.Condition`, with the methods that
`concurrent.futures` calls. Must never: be waited for without its lock.
"""

from __future__ import annotations

import threading
from _thread import LockType, RLock
from typing import Any

_wait_of_threading: Any = threading.Condition.wait


class LeanCondition(RLock):  # type: ignore[misc]  # the interpreter allows it, so taking the lock runs no Python
    """A lock, and one more for each thread that waits.

    A `threading.Condition` consists of nine objects that the garbage collector looks at, and takes a kilobyte. Of many
    open futures hardly one is waited for: with their conditions, half of what a submit cost its client was the
    collector. It also takes more steps to wake a thread.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[LockType] | None = None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the next `notify_all`, at most `timeout` seconds. Return False if it took longer.

        The standard library's method does it, which asks nothing but `_waiters` and the lock. In a task, it can be
        interrupted there, and not in code of ours.

        Raises:
            RuntimeError: if this thread does not hold the lock.
        """
        if self._waiters is None:
            self._waiters = []
        was_woken: bool = _wait_of_threading(self, timeout)
        return was_woken

    def notify_all(self) -> None:
        """Wake all threads that wait; this one holds the lock."""
        if self._waiters:
            for waiter in self._waiters:
                waiter.release()
            self._waiters.clear()
