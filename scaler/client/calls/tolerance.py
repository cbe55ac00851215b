"""FailureTolerance: the number of tasks of a map that may fail before the map fails.

Used by the maps of both clients, in the thread that reads results.
"""

from __future__ import annotations

from scaler.client.outcome import headline_of
from scaler.errors import TooManyFailuresError, is_error_of_task
from scaler.jobs.failures import exceeds, too_many

__tracebackhide__ = is_error_of_task


class FailureTolerance:
    """Counts the failed tasks of one map, and stops the map after too many failures.

    Args:
        return_exceptions: whether errors are returned as results; `max_failures` implies it.
        max_failures: the number or fraction of tasks that may fail, see `exceeds`. None: the first failure is raised,
            or with `return_exceptions` any number of tasks may fail.
        function: the name of the map's function, for the error.
    """

    def __init__(self, return_exceptions: bool, max_failures: float | None = None, function: str = "") -> None:
        self.returns_exceptions = return_exceptions or max_failures is not None
        self._most = max_failures
        self._function = function
        self._first: tuple[BaseException, int] | None = None
        self._failed = 0

    def take(self, error: BaseException, n_ended: int, index: int) -> None:
        """Count the failure of the task of item `index`. So far, `n_ended` tasks have ended, including this one.

        Raises:
            TooManyFailuresError: if too many tasks have failed.
            BaseException: `error`, if errors are not returned as results.
        """
        if not self.returns_exceptions:
            try:
                raise error
            finally:
                del error  # an exception and the frame that raised it would keep each other alive
        if self._most is not None:
            self._first = self._first or (error, index)
            self._failed += 1
            self.judge(n_ended)

    def judge(self, n_ended: int, *, is_end: bool = False) -> None:
        """Raise `TooManyFailuresError` if too many of `n_ended` tasks have failed. `is_end`: whether all have ended."""
        if self._first is None or self._most is None or not exceeds(self._most, self._failed, n_ended, is_end):
            return
        error, index = self._first
        sentence = too_many(self._most, self._failed, n_ended, "tasks")
        first = f"{headline_of(error)} in {self._function} (item {index})"
        raise TooManyFailuresError(f"{sentence}; the first: {first}") from error
