"""MapStream: one call of `Client.map_unordered`, whose results are yielded as they arrive.

Runs in the thread that reads the results. Open tasks and unread results never exceed the window. When the reader stops,
open tasks are cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scaler.client.calls.entry import Terms
from scaler.client.calls.functions import Function
from scaler.client.calls.repeated_values import RepeatedValues
from scaler.client.large_values import LargeValues
from scaler.client.link.thread import LinkThread
from scaler.client.map_run import WINDOW_BYTES, WINDOW_TASKS, MapRun
from scaler.errors import is_error_of_task
from scaler.ids import ObjectId, index_of
from scaler.pickling.serialization import Serializer
from scaler.wire.messages.client import TaskResult

__tracebackhide__ = is_error_of_task


class MapStream(MapRun):
    """The tasks of a map that yields results as they arrive; at most `window` tasks are open or have unread results."""

    def __init__(
        self,
        function: Function,
        terms: Terms,
        serializer: Serializer,
        link: LinkThread,
        timeout: float | None,
        return_exceptions: bool,
        repeated: RepeatedValues | None,
        window: float,
        max_failures: float | None = None,
    ) -> None:
        super().__init__(function, terms, serializer, link, timeout, return_exceptions, repeated, max_failures)
        self._window = int(min(window, WINDOW_TASKS))
        ready: deque[tuple[int, Any]] = deque()
        self._ready = ready
        self._keep = lambda index, value: ready.append((index, value))
        self._large: LargeValues[int] = LargeValues()

    def stream(self, items: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """Run one task for each item and yield each result as it arrives. Raises the same errors as `run`."""
        self._items = items
        self._n_items = len(items) if isinstance(items, (list, tuple)) else -1
        rest = enumerate(items)
        try:
            while True:
                if self._unread() <= self._window // 2:
                    self._fill(rest)
                if self._ready:
                    yield self._next()
                elif self._submitted == self._done:
                    self._tolerance.judge(self._done, is_end=True)
                    return
                else:
                    self._wait(self._submitted - self._done - 1)
                    self._collect()
        finally:  # also when the reader stops
            self._repeated = None
            for index in self._large.end():
                self._link.forget_result(self._object_of(index))
            self._abandon()

    def _next(self) -> Any:
        index, value = self._ready.popleft()
        if self._large.fetched:
            self._fetch(self._large.read(index))
        return value

    def _fetch(self, indices: Iterable[int]) -> None:
        for index in indices:
            self._link.fetch(self._object_of(index), self)

    def _unread(self) -> int:
        return self._submitted - self._done + len(self._ready)

    def _keep_all(self, first: int, values: list[Any]) -> None:
        self._ready.extend(enumerate(values, first))

    def _fill(self, rest: Iterator[tuple[int, Sequence[Any]]]) -> None:
        while (capacity := self._window - self._unread()) > 0 and self._open_bytes_sum <= WINDOW_BYTES:
            n_drawn = self._draw(rest, self._draw_limit(capacity))
            if not n_drawn:
                return
            self._submitted += n_drawn

    def _next_range_size(self, left: int) -> int:
        return super()._next_range_size(min(left, self._window))

    def _object_of(self, index: int) -> ObjectId:
        return ObjectId(self._id_prefix + index.to_bytes(8, "big"))

    # For the link's thread

    def store(self, result: TaskResult) -> None:
        due = self._large.add(index_of(result.task_id), result.size)
        if due is None:
            self._link.forget_result(ObjectId(result.task_id))
        else:
            self._fetch(due)
