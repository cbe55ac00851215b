"""MapStream: one call of `map_unordered`, whose results are yielded as they arrive.

Runs in the thread that reads the results. Open tasks and unread results never exceed the window. When the reader stops,
open tasks are cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf
from typing import Any

from scaler.client.large_values import LargeValues
from scaler.client.maps.map_run import MapCall, MapRun, Wake
from scaler.errors import is_error_of_task
from scaler.ids import ObjectId, index_of
from scaler.wire.messages.client import TaskResult

__tracebackhide__ = is_error_of_task


class MapStream(MapRun):
    """The tasks of a map that yields results as they arrive.

    A result that has arrived is yielded before a further item is drawn, unless the items are in a list or tuple: the
    item may be slow to come, or depend on what the reader does with the results.
    """

    def __init__(self, call: MapCall, wake: Wake | None = None, rows_a_step: float = inf) -> None:
        super().__init__(call, wake, rows_a_step)
        self._ready: deque[tuple[int, Any]] = deque()
        ready = self._ready
        self._keep = lambda index, value: ready.append((index, value))
        self._large = LargeValues()

    def stream(self, items: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """Run one task for each item and yield each result as it arrives. Raises the same errors as `run`."""
        is_complete = False
        try:
            self.begin(items)
            while self.has_next or not self.is_over():
                if self.has_next:
                    yield self.next()
                elif not self.step():
                    self.wait()
            is_complete = True
        finally:  # also when the reader stops
            self.end(is_complete)

    @property
    def has_next(self) -> bool:
        """Whether a result is there, and the items of a list do not have to be drawn first."""
        source = self.source
        return bool(self._ready) and (source.n_items < 0 or source.is_exhausted or not self._may_fill())

    def next(self) -> Any:
        """Return the next result. Only if `has_next`."""
        index, value = self._ready.popleft()
        if self._large.fetched:
            self._fetch(self._large.read(index))
        return value

    def end(self, is_complete: bool) -> None:
        for index in self._large.end():
            self.link.forget_result(ObjectId(self.source.id_of(index)))
        super().end(is_complete)

    def _fetch(self, indices: Iterable[int]) -> None:
        for index in indices:
            self.link.fetch(ObjectId(self.source.id_of(index)), self)

    def _make_room(self, n_drawn: int) -> None:
        """Do nothing: results are not kept in their order."""

    def _interrupting(self) -> Collection[Any]:
        return self._arrived

    def _has_news(self) -> bool:
        return self._has_arrived() or self.source.is_interrupted or super()._has_news()

    def _is_probe_due(self) -> bool:
        return False

    def capacity(self) -> int:
        return super().capacity() - len(self._ready)

    def _may_fill(self) -> bool:
        return self._n_open + len(self._ready) <= self._window // 2 and not self.source.is_full

    def _next_target(self) -> int:
        return self._n_open - 1

    def _keep_all(self, first: int, values: list[Any]) -> None:
        self._ready.extend(enumerate(values, first))

    # For the link's thread

    def store(self, result: TaskResult) -> None:
        due = self._large.add(index_of(result.task_id), result.size)
        if due is None:
            self.link.forget_result(ObjectId(result.task_id))
        else:
            self._fetch(due)
