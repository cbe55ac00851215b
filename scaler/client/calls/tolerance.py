"""Tolerance: how many tasks of a map may fail before all of it does.

Used by the maps of both clients, in the thread that reads results. Must never: hide a failure.
"""

from __future__ import annotations

from scaler.errors import TooManyFailuresError, has_ended_a_task

__tracebackhide__ = has_ended_a_task

LEAST_ENDED = 100
"""A part of those that have ended counts from so many on."""


class Tolerance:
    """Counts the failures of one map.

    Args:
        return_exceptions: whether errors are results.
        max_failures: how many may fail: a number, or, below 1, a part of those that have ended. None: none, or any
            number if errors are results.
    """

    def __init__(self, return_exceptions: bool, max_failures: float | None = None) -> None:
        self.returns_exceptions = return_exceptions
        self._most = max_failures
        self._first: BaseException | None = None
        self._failed = 0

    def take(self, error: BaseException, n_ended: int) -> None:
        """Count a failure.

        Args:
            n_ended: how many tasks have ended, this one among them.

        Raises:
            TooManyFailuresError: if these are too many.
            BaseException: the error, if none may fail.
        """
        if self._most is None:
            if not self.returns_exceptions:
                raise error
            return
        self._first = self._first or error
        self._failed += 1
        is_part = 0 < self._most < 1
        if self._failed > (self._most * n_ended if is_part else self._most) and (not is_part or n_ended >= LEAST_ENDED):
            sentence = f"{self._failed} of {n_ended} tasks of the map have failed, and at most {self._most:g} may"
            raise TooManyFailuresError(sentence) from error

    def end(self) -> None:
        """All have ended. Raise the first error, unless errors are results."""
        if self._first is not None and not self.returns_exceptions:
            raise self._first
