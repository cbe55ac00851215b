"""FunctionEnds: the number of ended tasks of each function, counted where tasks end, with the names of the functions.

Each row of a range or a job counts as a task; the tries of a task do not count. Counting begins with the scheduler, and
needs no viewer. `by_status` has the sums over all functions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scaler.ids import ObjectId, public_id
from scaler.wire.messages.common import TaskStatus

FUNCTIONS_MOST = 20_000
"""Limit of the functions with own counts, each of which takes some 450 bytes."""

NAME_CHARACTERS = 256


class EndedFunction:
    """A function of which tasks have ended.

    Attributes:
        counts: the number of its ended tasks by `TaskStatus`.
        seen: the sum of `counts` when `FunctionEnds` last looked for idle functions.
    """

    __slots__ = ("counts", "function_id", "name", "seen", "short_id")

    def __init__(self, function_id: ObjectId, short_id: bytes, name: str, counts: list[int]) -> None:
        self.function_id, self.short_id, self.name, self.counts = function_id, short_id, name, counts
        self.seen = -1

    @property
    def is_idle(self) -> bool:
        """Whether no task of the function has ended since the last look."""
        return sum(self.counts) == self.seen


class FunctionEnds(dict[ObjectId, list[int]]):
    """By function: the number of its ended tasks by `TaskStatus`. Looking up an unknown function adds it.

    Only `count` changes the numbers.

    Above `FUNCTIONS_MOST` functions, those that have ended no task for the longest time join `rest`. When a task ended
    is not stored, since that would cost time for each task. Instead, all functions are looked at each time that half of
    `FUNCTIONS_MOST` have been added: functions whose counts have not changed since the last look are idle.

    Args:
        name_of: returns the name of a function; empty if the function is unknown.
    """

    def __init__(self, name_of: Callable[[ObjectId], str]) -> None:
        super().__init__()
        self._name_of = name_of
        self._idle: deque[EndedFunction] = deque()
        self._n_new = 0
        """how many functions were added since the last look"""
        self.by_short_id: dict[bytes, EndedFunction] = {}
        self.by_status = [0] * len(TaskStatus)
        """the number of ended tasks of all functions by `TaskStatus`"""
        self.rest = [0] * len(TaskStatus)
        """the sum of the counts of all functions without own counts"""
        self.n_rest = 0
        """how many functions have joined `rest`; a function that joined it twice counts twice"""

    def count(self, function_id: ObjectId, status: int, tasks: int = 1, statuses: bytes = b"") -> None:
        """Count the ends of tasks of a function. `statuses`: the statuses of the rows of a range, where not 0."""
        counts, by_status = self[function_id], self.by_status
        counts[status] += tasks
        by_status[status] += tasks
        for other in statuses.replace(b"\0", b"") if statuses else b"":
            counts[status] -= 1
            by_status[status] -= 1
            counts[other] += 1
            by_status[other] += 1

    def check(self) -> None:
        """Assert that the sums over all functions are those by status."""
        sums = list(map(sum, zip(self.rest, *self.values(), strict=True)))
        assert sums == self.by_status, f"the functions have ended {sums} tasks, all together {self.by_status}"

    def __missing__(self, function_id: ObjectId) -> list[int]:
        self._n_new += 1
        if self._n_new > FUNCTIONS_MOST // 2:
            self._look()
        if len(self) >= FUNCTIONS_MOST:
            self._fold_one()
        counts = self[function_id] = [0] * len(TaskStatus)
        short_id = public_id(function_id)
        name = self._name_of(function_id)[:NAME_CHARACTERS]
        self.by_short_id[short_id] = EndedFunction(function_id, short_id, name, counts)
        return counts

    def _look(self) -> None:
        self._n_new = 0
        self._idle = deque(function for function in self.by_short_id.values() if function.is_idle)
        for function in self.by_short_id.values():
            function.seen = sum(function.counts)

    def _longest_idle(self) -> EndedFunction:
        """Return the function to fold; the oldest function if tasks of all functions have ended since the last look."""
        if not self._idle:
            self._look()
        while self._idle:
            function = self._idle.popleft()
            if function.is_idle:
                return function
        return next(iter(self.by_short_id.values()))

    def _fold_one(self) -> None:
        function = self._longest_idle()
        self.rest = list(map(int.__add__, self.rest, function.counts))
        self.n_rest += 1
        del self[function.function_id], self.by_short_id[function.short_id]
