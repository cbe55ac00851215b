"""MapRun: one call of `Client.map`, from the first item to the last result.

Runs in the thread that called `Client.map`. The link's thread appends results to a queue, and wakes the caller only
when many of the open tasks have ended or something failed. The task of an item has no future. The number of open tasks
is bounded, so the arguments of any number of items fit into memory. When the map raises, its open tasks are cancelled.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import suppress
from functools import partial
from itertools import islice, repeat
from math import inf
from typing import Any

from scaler import task_context
from scaler.client.calls.entry import RUN_OPTIONS, Entry, MakeError, Terms, needs_of
from scaler.client.calls.functions import NO_KEYWORDS, Function
from scaler.client.calls.inputs import Input, blamed
from scaler.client.calls.items import UNFIT, check_item, name_of_item, of_item
from scaler.client.calls.repeated_values import RepeatedValues
from scaler.client.calls.tolerance import FailureTolerance
from scaler.client.link.thread import LinkThread
from scaler.client.outcome import missing_result, read_error, read_value, unread_result
from scaler.client.progress.bar import REDRAW_SECONDS, Progress, Reports
from scaler.client.ranges import DrawnRows, TakenRows
from scaler.errors import is_error_of_task
from scaler.ids import PREFIX_BYTES, ObjectId, TaskId, index_of, random_id
from scaler.interruptions import is_interruption
from scaler.pickling.serialization import Frames, Serializer, reader_of, size_of
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.rows import RANGE_BYTES, RowsError, rows_of, rows_together, unpack

__tracebackhide__ = is_error_of_task

WINDOW_TASKS = 16384
"""The maximum number of open tasks of one map."""

WINDOW_BYTES = 256 * 1024 * 1024
"""The maximum size of the arguments of all open tasks, in bytes; only the last task may exceed this limit."""

BATCH_TASKS = 64
"""The maximum number of tasks that are passed to the link's thread at a time."""

PROBE_ROWS = 256
"""The number of rows that a map submits before it waits for its first result, if the duration of a row is unknown."""
PROBE_SECONDS = 0.03
"""The longest wait for the first result of a map."""

CHECK_SECONDS = 0.02
"""How often the progress bar is drawn and the time-out is checked while items are submitted."""

COUNTED_BYTES = 4096
"""The size up to which the arguments of a task are not counted, because the number of tasks bounds their memory."""


class MapRun:
    """The tasks of one map: receives their results, and fetches large results.

    Args:
        timeout: the longest duration of the map, in seconds, or None.
        repeated: sends a value that several tasks share only once; None: each task sends its own values.
        max_failures: the maximum number of tasks that may fail, see `FailureTolerance`.
    """

    _n_items = -1
    """the number of items; -1 if the iterable is not a list or tuple"""
    _is_drawing = False
    """whether the link's thread has been notified of the rows in `_drawn`"""
    _is_urgent = False
    _is_over = False
    """whether the map has ended, so that no further results are read"""

    def __init__(
        self,
        function: Function,
        terms: Terms,
        serializer: Serializer,
        link: LinkThread,
        timeout: float | None = None,
        return_exceptions: bool = False,
        repeated: RepeatedValues | None = None,
        max_failures: float | None = None,
    ) -> None:
        self._function = function
        self._repeated = repeated
        self._terms = terms
        self._suits_rows = RunOptions.decode(terms[RUN_OPTIONS]).suit_rows
        self._serializer = serializer
        self._link = link
        self._id_prefix = random_id()[:PREFIX_BYTES]
        self._tolerance = FailureTolerance(return_exceptions, max_failures, function.instruction.name)
        self._items: Iterable[Sequence[Any]] = ()
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._progress: Progress | None = None
        self._results: list[Any] = []
        self._keep: Callable[[int, Any], object] = self._results.__setitem__
        self._submitted = self._done = self._failed = 0
        self._check_at = inf if self._deadline is None else -inf
        """while items are submitted: when the clock and the arrived results are checked next"""
        self._needs: dict[int, Sequence[tuple[str, Input]]] = {}
        """index of an open task that has futures among its arguments -> the labels and inputs of these futures"""
        self._open_bytes: dict[int, int] = {}
        self._open_bytes_sum = 0
        # Between the two threads:
        self._drawn = DrawnRows(0)
        """rows that were read from the iterable and that the link's thread has not taken yet"""
        self._arrived: deque[TaskResult] = deque()
        self._arrived_frames: deque[tuple[ObjectId, Frames | None]] = deque()
        self._error: MakeError | None = None
        self._open_target = 0
        self._wake = threading.Event()
        self.deliver = self._arrived.append
        self._extra_rows = [0, 0]
        """how many more rows than results (a range has many rows and one result): of all that have arrived, and of
        those read
        """

    def run(self, items: Iterable[Sequence[Any]], progress: bool) -> list[Any]:
        """Run one task for each item and return the results in the order of the items.

        Raises:
            TypeError: if an item is neither a tuple nor a list, or the function does not take the arguments of an item.
            TimeoutError: if the map took longer than its time-out.
            BaseException: the exception of the first task that failed.
        """
        if progress:
            self._check_at = -inf
            reports = Reports(self._link.read_oldest_report)
            notes = lambda: self._link.concern or reports.text()  # noqa: E731
            self._progress = Progress(len(items) if isinstance(items, Sized) else None, sys.stderr, notes)
        try:
            self._submit_all(items)
            while self._done < self._submitted:
                # Wait for half of the open tasks each time: results are read while others run, with few wake-ups.
                self._wait((self._submitted - self._done) // 2)
                self._collect()
        except BaseException:  # raised again: the results are not read
            self._abandon()
            raise
        finally:
            self._repeated = None  # an error that the user keeps would keep its objects
            if self._progress is not None:
                self._progress.finish(self._done, self._failed)
        self._tolerance.judge(self._done, is_end=True)
        return self._results

    # Submitting

    def _submit_all(self, items: Iterable[Sequence[Any]]) -> None:
        self._items = items
        rest = enumerate(items)
        capacity = WINDOW_TASKS
        # Items of a list are available at once. Other iterables may be slow, so no item waits for the next one.
        self._n_items = len(items) if isinstance(items, (list, tuple)) else -1
        while n_rows := self._draw(rest, self._draw_limit(capacity)):
            self._results.extend(repeat(None, n_rows))
            self._submitted += n_rows
            capacity -= n_rows
            if not self._submitted % PROBE_ROWS:
                self._await_first()
            if (
                self._is_urgent
                or (self._check_at < inf and time.monotonic() >= self._check_at)
                or self._has_first_durations()
            ):
                self._collect()
            if capacity <= 0 or self._open_bytes_sum > WINDOW_BYTES:
                capacity = self._wait_for_capacity()

    def _draw_limit(self, capacity: int) -> int:
        """Return how many items to read at a time: enough for whole ranges if the items are in a list or tuple."""
        if self._n_items < 0:
            return min(capacity, BATCH_TASKS) if self._check_at == inf else 1
        rows = self._next_range_size(self._n_items - self._submitted)
        return min(capacity, rows * max(1, BATCH_TASKS // rows))

    def _has_first_durations(self) -> bool:
        return bool(self._arrived) and self._is_duration_unknown()

    def _is_duration_unknown(self) -> bool:
        if self._link.rows_most <= 1 or not self._suits_rows:
            return False
        return self._link.durations.known_us(self._function.instruction.object_id) == 0.0

    def _await_first(self) -> None:
        """Wait briefly for the first result: its duration shows how many rows each further task should have."""
        if self._n_items >= 0 and not self._link.is_nested and self._is_duration_unknown():
            self._wait(self._submitted - self._done - 1, PROBE_SECONDS)

    def _next_range_size(self, left: int) -> int:
        if left <= 1 or self._link.rows_most <= 1 or not self._suits_rows:
            return 1
        mean_us = self._link.durations.expected_us(self._function.instruction.object_id)
        return rows_together(self._link.rows_most, mean_us, left)

    def _draw(self, rest: Iterator[tuple[int, Sequence[Any]]], most: int) -> int:
        """Read up to `most` items, and pass their rows to the link's thread. Return the number of items; 0 at the end.

        Stop after a row whose values are sent as objects, or when the rows fill a message.
        """
        drawn: list[bytes | Entry] = []
        n_drawn = n_bytes = 0
        is_lazy, block_of = self._n_items < 0, self._function.block
        refers = is_last = False
        for index, item in islice(rest, most):
            if type(item) is not tuple:
                check_item(index, item)
            try:
                row = block_of(item) or self._entry_of(index, item)
            except UNFIT as error:
                raise of_item(error, index) from error.__cause__
            drawn.append(row)
            n_drawn += 1
            if not isinstance(row, bytes):
                n_bytes += self._count_bytes(index, row)
                refers = refers or bool(row[0].object_ids or row[0].inputs)
                is_last = bool(row[3]) or n_bytes > RANGE_BYTES or self._open_bytes_sum > WINDOW_BYTES
            if is_lazy:  # the next item may be slow
                self._submit_drawn(index, drawn, refers)
                drawn = []
            if is_last or self._is_urgent:
                break
        if drawn:
            self._submit_drawn(index + 1 - len(drawn), drawn, refers)
        return n_drawn

    def _submit_drawn(self, first: int, drawn: Sequence[bytes | Entry], refers: bool) -> None:
        """Pass rows to the link's thread, which sends whole ranges.

        Rows that refer to objects or tasks start a new queue, because rows in the earlier queue may be sent before
        these objects and tasks.
        """
        if refers:
            self._drawn, self._is_drawing = DrawnRows(first), False
        self._drawn.rows.extend(drawn)
        if not self._is_drawing:
            self._is_drawing = True
            self._link.submit_rows(partial(self._take_drawn, self._drawn), self)

    def _entry_of(self, index: int, item: Sequence[Any]) -> Entry:
        pack = None if self._repeated is None else self._repeated.pack
        entry = self._function.entry(self._id_of(index), self, item, NO_KEYWORDS, self._terms, pack)
        if entry[0].inputs:
            self._needs[index] = needs_of(entry[4])
        return entry

    def _id_of(self, index: int) -> TaskId:
        return TaskId(self._id_prefix + index.to_bytes(8, "big"))

    def _count_bytes(self, index: int, entry: Entry) -> int:
        """Count the memory of a task's arguments until the task has ended. Return the number of bytes."""
        task, objects = entry[0], entry[3]
        size_bytes = len(task.payload) + size_of(task.frames) + sum(size_of(each.frames) for each in objects)
        if self._repeated is not None:
            size_bytes += self._repeated.take_bytes()
        if size_bytes > COUNTED_BYTES:
            self._open_bytes[index] = size_bytes
            self._open_bytes_sum += size_bytes
        return size_bytes

    def _wait_for_capacity(self) -> int:
        """Wait until enough open tasks have ended. Return how many more tasks may be open."""
        self._collect()
        while True:
            n_open = self._submitted - self._done
            if n_open <= WINDOW_TASKS * 3 // 4 and self._open_bytes_sum <= WINDOW_BYTES:
                return WINDOW_TASKS - n_open
            self._wait(n_open - 1 if self._open_bytes_sum > WINDOW_BYTES else WINDOW_TASKS * 3 // 4)
            self._collect()

    # Collecting

    def _wait(self, open_target: int, most_seconds: float | None = None) -> None:
        """Wait until at most `open_target` tasks are open, something failed, or a redraw or the deadline is due."""
        self._wake.clear()
        self._open_target = open_target
        if self._is_ready():
            return
        seconds = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        if self._progress is not None:
            most_seconds = min(REDRAW_SECONDS, most_seconds or REDRAW_SECONDS)
        if most_seconds is not None:
            seconds = most_seconds if seconds is None else min(seconds, most_seconds)
        with task_context.current.wait(self._link, self._is_ready, seconds):
            self._wake.wait(seconds)

    def _is_ready(self) -> bool:
        n_arrived = len(self._arrived) + self._extra_rows[0] - self._extra_rows[1] + len(self._arrived_frames)
        return self._is_urgent or self._submitted - self._done - n_arrived <= self._open_target

    def _collect(self) -> None:
        """Read the results that have arrived. Raises the error of the first failed task, or that of the whole map."""
        self._is_urgent = False  # urgent results have arrived, and are read now
        arrived, serializer, put = self._arrived, self._serializer, self._put
        total_us = count = 0
        for _ in range(len(arrived)):
            result = arrived.popleft()
            total_us += result.duration_us
            count += result.rows or 1
            if result.rows:
                self._read_rows(result)
            elif result.status:
                put(result.task_id, None, self._read_error(result))
            else:
                value, error = read_value(serializer, (result.payload,))
                put(result.task_id, value, error and self._unread_result(error, result.task_id))
        if count and self._link.rows_most > 1:
            self._link.durations.learn(self._function.instruction.object_id, total_us or 1, count)
        while self._arrived_frames:
            object_id, frames = self._arrived_frames.popleft()
            value, error = (None, missing_result()) if frames is None else read_value(serializer, frames)
            put(object_id, value, error and self._unread_result(error, object_id))
        if self._error is not None:
            raise self._error()
        self._tolerance.judge(self._done)
        if self._check_at < inf:
            self._check_at = time.monotonic() + CHECK_SECONDS
        if self._progress is not None:
            self._progress.update(self._done, self._failed)
        if self._deadline is not None and time.monotonic() >= self._deadline and self._done < self._submitted:
            raise TimeoutError(self._timeout_text())

    def _read_rows(self, result: TaskResult) -> None:
        self._extra_rows[1] += result.rows - 1
        if not (result.status or result.statuses):
            with suppress(RowsError):
                self._read_values(index_of(result.task_id), unpack(result.payload, result.rows))
                return
        for each in rows_of(result):
            if each.status:
                self._put(each.task_id, None, self._read_error(each))
            else:
                self._read_values(index_of(each.task_id), [each.payload])

    def _read_values(self, first: int, blocks: Sequence[bytes]) -> None:
        values: list[Any] = []
        try:
            values.extend(map(reader_of(self._serializer), blocks))
        except BaseException as error:
            if is_interruption(error):
                raise
        self._keep_all(first, values)
        self._done += len(values)
        if self._open_bytes:
            self._open_bytes_sum -= sum(self._open_bytes.pop(each, 0) for each in range(first, first + len(values)))
        if len(values) < len(blocks):
            self._read_one_by_one(first + len(values), blocks[len(values) :])

    def _keep_all(self, first: int, values: list[Any]) -> None:
        self._results[first : first + len(values)] = values

    def _read_one_by_one(self, first: int, blocks: Sequence[bytes]) -> None:
        """Read the values of a result one by one, because the first of them cannot be read."""
        for index, block in enumerate(blocks, first):
            task_id = self._id_of(index)
            value, error = read_value(self._serializer, (block,))
            self._put(task_id, value, error and self._unread_result(error, task_id))

    def _timeout_text(self) -> str:
        all_of = len(self._items) if isinstance(self._items, Sized) else f"the first {self._submitted}"
        text = f"the map has {self._done} of {all_of} results after {self._timeout:g} s"
        return f"{text}: {self._link.concern}" if self._link.concern else text

    def _read_error(self, result: TaskResult) -> BaseException:
        name = self._name_of(result.task_id)
        return read_error(result, blamed(name, self._needs.get(index_of(result.task_id), ())))

    def _unread_result(self, error: BaseException, task_id: bytes) -> BaseException:
        return unread_result(error, self._name_of(task_id))

    def _name_of(self, task_id: bytes) -> str:
        return name_of_item(self._function.instruction.name, index_of(task_id), self._items)

    def _put(self, task_id: bytes, value: Any, error: BaseException | None) -> None:
        index = int.from_bytes(task_id[PREFIX_BYTES:], "big")  # as `index_of`, without a call for each result
        if error is not None:
            try:
                self._tolerance.take(error, self._done + 1, index)
            except BaseException:
                del error, value  # an exception and a frame of its traceback would keep each other alive
                raise
            value = error
            self._failed += 1
        self._keep(index, value)
        self._done += 1
        if self._open_bytes and index in self._open_bytes:
            self._open_bytes_sum -= self._open_bytes.pop(index)
        if self._needs:
            self._needs.pop(index, None)

    def _abandon(self) -> None:
        self._is_over = True
        self._link.abandon(self)

    # For the link's thread

    def _take_drawn(self, drawn: DrawnRows) -> Iterator[Entry]:
        if drawn is self._drawn:
            self._is_drawing = False
        function = self._function
        while drawn.rows and not self._is_over:
            left = len(drawn.rows) if self._n_items < 0 else self._n_items - drawn.first
            taken = drawn.take(self._next_range_size(left))
            if isinstance(taken, TakenRows):
                self.deliver = self._deliver_rows
                yield function.range_entry(self._id_of(taken.first), self, taken.blocks, taken.frames, self._terms)
            else:
                yield taken

    def _deliver_rows(self, result: TaskResult) -> None:
        if result.rows:
            self._extra_rows[0] += result.rows - 1
            if result.statuses:
                self._is_urgent = True
        self._arrived.append(result)

    def refuse(self, result: TaskResult) -> None:
        self._deliver_rows(result)
        self._is_urgent = True

    def store(self, result: TaskResult) -> None:
        self._link.fetch(ObjectId(result.task_id), self)

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:
        self._arrived_frames.append((object_id, frames))
        self.notify()

    def fail(self, make_error: MakeError) -> None:
        self._error = make_error
        self._is_urgent = True
        self._wake.set()

    def notify(self) -> None:
        if self._is_ready():
            self._wake.set()
