"""Condition: what a future's threads wait for, made only when a thread waits.

Used by `ScalerFuture` in place of the standard library's `threading.Condition`, with the methods that
`concurrent.futures` calls. Must never: be waited for without its lock.
"""

from __future__ import annotations

import threading
from types import TracebackType


class LazyCondition:
    """A lock, and a `threading.Condition` on it from the first wait on.

    A condition consists of nine objects that the garbage collector looks at, and takes a kilobyte. Of many open
    futures hardly one is waited for: with their conditions, half of what a submit cost its client was the collector.
    """

    __slots__ = ("_condition", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._condition: threading.Condition | None = None

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the next `notify_all`, at most `timeout` seconds. Return False if it took longer.

        Raises:
            RuntimeError: if this thread does not hold the lock.
        """
        if self._condition is None:
            self._condition = threading.Condition(self._lock)
        return self._condition.wait(timeout)

    def notify_all(self) -> None:
        """Wake all threads that wait; this one holds the lock."""
        if self._condition is not None:
            self._condition.notify_all()
