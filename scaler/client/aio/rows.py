"""AsyncMapRows: the rows of a map of the asyncio client that travel in ranges, and the sink of their results.

Used by `map` and `map_unordered`, in the thread of the loop. Each row has its future. A row with objects or future
arguments is sent alone. No row waits for a later one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from scaler.client.aio.future import AsyncFuture
from scaler.client.aio.link import AsyncLink
from scaler.client.calls.entry import RUN_OPTIONS, Entry, MakeError, Terms
from scaler.client.calls.functions import Function
from scaler.client.ranges import DrawnRows, TakenRows, has_only_frames
from scaler.ids import PREFIX_BYTES, TaskId, index_of, random_id
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.rows import rows_of, rows_together


class AsyncMapRows:
    """The rows of one map, which all call one function."""

    def __init__(self, link: AsyncLink, function: Function, terms: Terms) -> None:
        self._link = link
        self._function = function
        self._terms = terms
        self._may_be_together = RunOptions.decode(terms[RUN_OPTIONS]).suit_rows and not link.is_nested
        self._prefix = random_id()[:PREFIX_BYTES]
        self._drawn: deque[DrawnRows] = deque()
        self._futures: dict[TaskId, AsyncFuture[object]] = {}

    def new_id(self, index: int) -> TaskId:
        """Return the id of a row."""
        return TaskId(self._prefix + index.to_bytes(8, "big"))

    def submit(self, entry: Entry) -> None:
        """Send a row, with those that are there when the link comes for it."""
        is_like_others = self._may_be_together and entry[2] is self._function.instruction and has_only_frames(entry)
        if not is_like_others or self._link.rows_most <= 1 or self._link.closed_because:
            self._link.submit(entry)
            return
        task, future = entry[0], entry[1]
        assert isinstance(future, AsyncFuture)
        self._futures[task.task_id] = future
        drawn, index = self._drawn, index_of(task.task_id)
        if not drawn:
            self._link.submit_rows(self._take)
        if not drawn or index != drawn[-1].first + len(drawn[-1].rows):
            drawn.append(DrawnRows(index))
        drawn[-1].rows.append(entry if task.frames else task.payload)

    def _take(self) -> Iterator[Entry]:
        """Return the tasks of the rows that are there. A map that is over wants none."""
        durations, function = self._link.durations, self._function
        while self._drawn:
            drawn = self._drawn[0]
            mean_us = durations.expected_us(function.instruction.object_id)
            taken = drawn.take(rows_together(self._link.rows_most, mean_us, len(drawn.rows)))
            if not drawn.rows:
                self._drawn.popleft()
            assert isinstance(taken, TakenRows)
            future = self._futures.get(self.new_id(taken.first))
            if future is not None and not future.done():
                yield function.range_entry(self.new_id(taken.first), self, taken.blocks, taken.frames, self._terms)

    # For the link

    def deliver(self, result: TaskResult) -> None:
        self._link.durations.learn(self._function.instruction.object_id, result.duration_us, result.rows or 1)
        self.refuse(result)

    def refuse(self, result: TaskResult) -> None:
        for each in rows_of(result) if result.rows else (result,):
            future = self._futures.pop(each.task_id, None)
            if future is not None:  # else the map is over
                (future.refuse if each.status else future.deliver)(each)

    def store(self, result: TaskResult) -> None:
        future = self._futures.get(result.task_id)  # it stays: if its value is lost, the row runs again
        if future is not None:
            future.store(result)

    def fail(self, make_error: MakeError) -> None:
        """A row or a range will have no result, and so the map has none."""
        futures, self._futures = self._futures, {}
        for task_id, future in futures.items():
            self._link.cancel(task_id)
            future.fail(make_error)

    def notify(self) -> None:
        """Do nothing: whoever waits is woken by the loop."""
