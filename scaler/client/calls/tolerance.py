"""Tolerance: how many tasks of a map may fail before all of it does.

Used by the maps of both clients, in the thread that reads results. Must never: hide a failure.
"""

from __future__ import annotations

from scaler.client.outcome import headline_of
from scaler.errors import TooManyFailuresError, has_ended_a_task
from scaler.jobs.failures import exceeds, too_many

__tracebackhide__ = has_ended_a_task


class Tolerance:
    """Counts the failures of one map.

    Args:
        return_exceptions: whether errors are results.
        max_failures: how many may fail, see `exceeds`; then errors are results, too. None: none, or any number if
            errors are results.
        function: the name of its function.
    """

    def __init__(self, return_exceptions: bool, max_failures: float | None = None, function: str = "") -> None:
        self.returns_exceptions = return_exceptions or max_failures is not None
        self._most = max_failures
        self._function = function
        self._first: tuple[BaseException, int] | None = None
        self._failed = 0

    def take(self, error: BaseException, n_ended: int, index: int) -> None:
        """Count a failure.

        Args:
            n_ended: how many tasks have ended, this one among them.
            index: of its item.

        Raises:
            TooManyFailuresError: if these are too many.
            BaseException: the error, if none may fail.
        """
        if not self.returns_exceptions:
            raise error
        if self._most is not None:
            self._first = self._first or (error, index)
            self._failed += 1
            self.judge(n_ended)

    def judge(self, n_ended: int, *, is_end: bool = False) -> None:
        """Raise `TooManyFailuresError` if too many have failed.

        Args:
            n_ended: how many tasks have ended.
            is_end: whether these are all.
        """
        if self._first is None or self._most is None or not exceeds(self._most, self._failed, n_ended, is_end):
            return
        error, index = self._first
        sentence = too_many(self._most, self._failed, n_ended, "tasks")
        first = f"{headline_of(error)} in {self._function} (item {index})"
        raise TooManyFailuresError(f"{sentence}; the first: {first}") from error
