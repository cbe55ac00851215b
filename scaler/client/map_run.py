"""MapRun: one call of `Client.map`, from the first item to the last result.

Runs in the thread that called it. The link's thread appends results to a queue and wakes it only when a good part of
the open tasks has ended or something failed. A mapped task has no future. The number of open tasks is bounded, so any
number of items fits into memory. Must never leave a task running when it raises.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice, repeat
from math import inf
from typing import Any

from scaler import task_context
from scaler.client.calls.entry import PREFIX_BYTES, Entry, MakeError, index_of
from scaler.client.calls.functions import NO_KEYWORDS, NO_OBJECTS, RUN_OPTIONS, Function, Terms
from scaler.client.calls.items import UNFIT, check_item, name_of_item, of_item
from scaler.client.calls.repeated import Repeated
from scaler.client.calls.tolerance import Tolerance
from scaler.client.link.thread import LinkThread
from scaler.client.outcome import missing_result, read_error, read_value, unread_result
from scaler.client.progress.bar import REDRAW_SECONDS, Progress, Reports
from scaler.client.ranges import Drawn, unreadable
from scaler.errors import has_ended_a_task
from scaler.ids import ObjectId, TaskId, random_id
from scaler.pickling.serialization import Buffer, Frames, Serializer, size_of
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.rows import RANGE_BYTES, RowsError, results_of, rows_together, unpack

__tracebackhide__ = has_ended_a_task

WINDOW_TASKS = 16384
"""The most tasks of one map that are open at once."""

WINDOW_BYTES = 256 * 1024 * 1024
"""The most memory that the arguments of its open tasks take, except for the last one."""

BATCH_TASKS = 64
"""The most tasks that go to the link's thread at a time."""

BATCH_BYTES = 512 * 1024
"""The most bytes of these, unless one has more."""

LOOK_SECONDS = 0.02
"""While items are submitted, a map with a progress bar or a time-out looks so often at both."""

COUNTED_BYTES = 4096
"""Smaller arguments are not counted: the number of tasks bounds them."""


ROW = 1
"""`coalesce_result` of a row whose result is only wanted with those of all others."""


class MapRun:
    """The tasks of one map. A sink of their results and a receiver of the large ones.

    Args:
        terms: how its tasks run.
        timeout: seconds from the start to the end, or None.
        return_exceptions: whether the exception of a failed task is its result.
        repeated: sends values that several tasks share once; None: each task has its own.
        max_failures: how many tasks may fail, see `Tolerance`.
    """

    _coalesce_result = ROW
    _is_drawing = False
    """whether the link's thread was told of rows that were drawn"""
    _is_urgent = False
    _is_over = False
    """whether nobody will read further results"""

    def __init__(
        self,
        function: Function,
        terms: Terms,
        serializer: Serializer,
        link: LinkThread,
        timeout: float | None = None,
        return_exceptions: bool = False,
        repeated: Repeated | None = None,
        max_failures: float | None = None,
    ) -> None:
        self._function = function
        self._repeated = repeated
        self._terms = terms
        self._suits_rows = RunOptions.decode(terms[RUN_OPTIONS]).suit_rows
        self._serializer = serializer
        self._link = link
        self._id_prefix = random_id()[:PREFIX_BYTES]
        self._tolerance = Tolerance(return_exceptions, max_failures)
        self._items: Iterable[Sequence[Any]] = ()
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._progress: Progress | None = None
        self._results: list[Any] = []
        self._keep: Callable[[int, Any], object] = self._results.__setitem__
        self._submitted = 0
        self._done = 0
        self._failed = 0
        self._look_at = inf if self._deadline is None else -inf
        """when to look at the clock and at the results while items are submitted"""
        self._open_bytes: dict[int, int] = {}
        self._open_bytes_sum = 0
        # Between the two threads:
        self._drawn: Drawn = deque()
        """rows that were drawn from an iterator, and that the link's thread has not taken"""
        self._arrived: deque[TaskResult] = deque()
        self._arrived_frames: deque[tuple[ObjectId, Frames | None]] = deque()
        self._error: MakeError | None = None
        self._enough = 0
        self._wake = threading.Event()
        self.deliver = self._arrived.append
        self._extra_rows = [0, 0]
        """how many more rows than results have arrived, and were read"""

    def run(self, items: Iterable[Sequence[Any]], progress: bool) -> list[Any]:
        """Run one task for each item and return the results in the order of the items.

        Raises:
            TypeError: if an item is neither a tuple nor a list, or the function does not take these arguments.
            TimeoutError: if it took too long.
            BaseException: the exception of the first task that failed.
        """
        if progress:
            self._look_at = -inf
            reports = Reports(self._link.read_oldest_report)
            notes = lambda: self._concern() or reports.text()  # noqa: E731
            self._progress = Progress(len(items) if isinstance(items, Sized) else None, sys.stderr, notes)
        try:
            self._submit_all(items)
            while self._done < self._submitted:
                # Wait for half of the rest each time: results are read while other tasks run, for a handful of
                # wake-ups.
                self._wait((self._submitted - self._done) // 2)
                self._collect()
        except BaseException:  # raised again: nobody will read the results
            self._end()
            raise
        finally:
            self._repeated = None  # an error that the user keeps would keep its objects
            if self._progress is not None:
                self._progress.finish(self._done, self._failed)
        self._tolerance.end()
        return self._results

    # Submitting

    def _submit_all(self, items: Iterable[Sequence[Any]]) -> None:
        self._items = items
        rest = enumerate(items)
        room = WINDOW_TASKS
        # The items of a list are there. Those of others come when they come, and none waits for the next one.
        n_items = len(items) if isinstance(items, (list, tuple)) else -1
        while n_tasks := self._submit_some(rest, room, n_items - self._submitted if n_items >= 0 else -1):
            self._results.extend(repeat(None, n_tasks))
            self._submitted += n_tasks
            room -= n_tasks
            if self._is_urgent or (self._look_at < inf and time.monotonic() >= self._look_at) or self._must_learn():
                self._collect()
            if room <= 0 or self._open_bytes_sum > WINDOW_BYTES:
                room = self._make_room()

    def _submit_some(self, rest: Iterator[tuple[int, Sequence[Any]]], room: int, left: int) -> int:
        """Submit the tasks of some of the next items. Return how many; 0: there are no more items.

        Args:
            room: how many there may be.
            left: how many there are; -1: they come when they come.
        """
        if left < 0 and self._may_be_together():
            found = next(rest, None)
            if found is not None:
                self._draw(*found)
            return found is not None
        rows = self._rows_now(room, left)
        if rows > 1:
            return self._submit_range(rest, rows)
        batch = self._make_batch(rest, min(BATCH_TASKS if left >= 0 else 1, room))
        n_tasks = len(batch)
        if batch:
            self._hand_over(batch)
        return n_tasks

    def _must_learn(self) -> bool:
        """Return whether results are there that say for the first time how long its rows take."""
        if not self._arrived or self._link.rows_most <= 1:
            return False
        return self._link.durations.known_us(self._function.instruction.object_id) == 0.0

    def _may_be_together(self) -> bool:
        """Return whether rows may travel as one task."""
        return self._link.rows_most > 1 and self._suits_rows

    def _rows_now(self, room: int, left: int) -> int:
        """Return how many of the rows that are left the next task is to have."""
        if left <= 1 or not self._may_be_together():
            return 1
        mean_us = self._link.durations.expected_us(self._function.instruction.object_id)
        return rows_together(min(self._link.rows_most, room), mean_us, left)

    def _submit_range(self, rest: Iterator[tuple[int, Sequence[Any]]], most: int) -> int:
        """Submit one task of the next items, at most so many, and a single one behind it if an argument is large."""
        blocks: list[bytes] = []
        frames: list[Buffer] = []
        alone: Entry | None = None
        first, n_bytes = -1, 0
        block_of = self._function.block
        for index, item in islice(rest, most):
            if type(item) is not tuple:
                check_item(index, item)
            try:
                block = block_of(item)
                if block is None or frames:
                    alone = self._entry_of(index, item)
                    n_bytes += self._count_bytes(index, alone)
                    block = _block_beside(alone, len(blocks), frames)
            except UNFIT as error:
                raise of_item(error, index) from error.__cause__
            if first < 0:
                first = index
            if block is None:
                break
            alone = None
            blocks.append(block)
            n_bytes += len(block)
            if n_bytes > RANGE_BYTES:
                break
        if blocks:
            self._link.submit_range(self._range_entry(first, blocks, frames))
        if alone is not None:
            self._link.submit(alone)
        return len(blocks) + (alone is not None)

    def _draw(self, index: int, item: Sequence[Any]) -> None:
        """Have the link's thread send a row, with those that are there by then: none waits for a later one."""
        check_item(index, item)
        row: bytes | Entry | None
        try:
            row = self._function.block(item)
            if row is None:
                row = self._entry_of(index, item)
                self._count_bytes(index, row)
        except UNFIT as error:
            raise of_item(error, index) from error.__cause__
        self._drawn.append((index, row))
        if not self._is_drawing:
            self._is_drawing = True
            self._link.submit_rows(self._take_drawn, self)

    def _range_entry(self, first: int, blocks: Sequence[bytes], frames: Frames) -> Entry:
        self.deliver = self._deliver_rows
        together = self._coalesce_result
        return self._function.range_entry(self._id_of(first), self, blocks, frames, self._terms, together)

    def _entry_of(self, index: int, item: Sequence[Any]) -> Entry:
        pack, together = None if self._repeated is None else self._repeated.pack, self._coalesce_result
        return self._function.entry(self._id_of(index), self, item, NO_KEYWORDS, self._terms, together, pack)

    def _id_of(self, index: int) -> TaskId:
        return TaskId(self._id_prefix + index.to_bytes(8, "big"))

    def _make_batch(self, rest: Iterator[tuple[int, Sequence[Any]]], most: int) -> list[Entry]:
        """Make the tasks of the next items ready, at most so many; none follows one that brings an object, or when they
        fill a message.
        """
        batch: list[Entry] = []
        batch_bytes = 0
        prefix: Any = self._id_prefix  # of type Any, since calling `TaskId` for each item costs time
        make, terms, add = self._function.entry, self._terms, batch.append
        pack = None if self._repeated is None else self._repeated.pack
        for index, item in islice(rest, most):
            if type(item) is not tuple:
                check_item(index, item)
            try:
                entry = make(prefix + index.to_bytes(8, "big"), self, item, NO_KEYWORDS, terms, 1, pack)
            except UNFIT as error:
                raise of_item(error, index) from error.__cause__
            add(entry)
            if entry[3] is not NO_OBJECTS:  # its arguments are not plain
                batch_bytes += self._count_bytes(index, entry)
                if entry[3] or batch_bytes > BATCH_BYTES or self._open_bytes_sum > WINDOW_BYTES:
                    break
        return batch

    def _hand_over(self, batch: list[Entry]) -> None:
        last = batch.pop() if len(batch) == 1 or batch[-1][3] else None
        if batch:
            self._link.submit_all(batch, self)
        if last is not None:
            self._link.submit(last)

    def _count_bytes(self, index: int, entry: Entry) -> int:
        """Count the memory that a task takes until it has ended. Return how many bytes it is."""
        task, objects = entry[0], entry[3]
        size_bytes = len(task.payload) + size_of(task.frames) + sum(size_of(each.frames) for each in objects)
        if self._repeated is not None:
            size_bytes += self._repeated.take_bytes()
        if size_bytes > COUNTED_BYTES:
            self._open_bytes[index] = size_bytes
            self._open_bytes_sum += size_bytes
        return size_bytes

    def _make_room(self) -> int:
        """Wait until a part of the open tasks has ended. Return how many more tasks may be open."""
        self._collect()
        while True:
            n_open = self._submitted - self._done
            if n_open <= WINDOW_TASKS * 3 // 4 and self._open_bytes_sum <= WINDOW_BYTES:
                return WINDOW_TASKS - n_open
            self._wait(n_open - 1 if self._open_bytes_sum > WINDOW_BYTES else WINDOW_TASKS * 3 // 4)
            self._collect()

    # Collecting

    def _wait(self, enough: int) -> None:
        """Wait until no more than `enough` tasks are open, something failed, or a redraw or the deadline is due."""
        self._wake.clear()
        self._enough = enough
        if self._is_ready():
            return
        seconds = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        if self._progress is not None:
            seconds = REDRAW_SECONDS if seconds is None else min(seconds, REDRAW_SECONDS)
        with task_context.current.wait(self._link, self._is_ready, seconds):
            self._wake.wait(seconds)

    def _is_ready(self) -> bool:
        n_arrived = len(self._arrived) + self._extra_rows[0] - self._extra_rows[1] + len(self._arrived_frames)
        return self._is_urgent or self._submitted - self._done - n_arrived <= self._enough

    def _collect(self) -> None:
        """Read the results that have arrived.

        Raises:
            BaseException: the error of the first task that failed, or of the map.
        """
        self._is_urgent = False  # what is urgent arrived before this
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
            self._link.durations.learn(self._function.instruction.object_id, total_us, count)
        while self._arrived_frames:
            object_id, frames = self._arrived_frames.popleft()
            value, error = (None, missing_result()) if frames is None else read_value(serializer, frames)
            put(object_id, value, error and self._unread_result(error, object_id))
        if self._error is not None:
            raise self._error()
        if self._look_at < inf:
            self._look_at = time.monotonic() + LOOK_SECONDS
        if self._progress is not None:
            self._progress.update(self._done, self._failed)
        if self._deadline is not None and time.monotonic() >= self._deadline and self._done < self._submitted:
            raise TimeoutError(self._late())

    def _read_rows(self, result: TaskResult) -> None:
        self._extra_rows[1] += result.rows - 1
        try:
            if not (result.status or result.statuses):
                self._read_values(index_of(result.task_id), unpack(result.payload, result.rows))
                return
            apart = results_of(result)
        except RowsError as error:
            apart = unreadable(result, error)
        for each in apart:
            if each.status:
                self._put(each.task_id, None, self._read_error(each))
            else:
                self._read_values(index_of(each.task_id), [each.payload])

    def _read_values(self, first: int, blocks: Sequence[bytes]) -> None:
        serializer, keep = self._serializer, self._keep
        for index, block in enumerate(blocks, first):
            value, error = read_value(serializer, (block,))
            if error is None:
                keep(index, value)
                self._done += 1
                if self._open_bytes:
                    self._open_bytes_sum -= self._open_bytes.pop(index, 0)
            else:
                task_id = self._id_of(index)
                self._put(task_id, None, self._unread_result(error, task_id))

    def _concern(self) -> str:
        return self._link.concern

    def _late(self) -> str:
        all_of = len(self._items) if isinstance(self._items, Sized) else f"the first {self._submitted}"
        text = f"the map has {self._done} of {all_of} results after {self._timeout:g} s"
        return f"{text}: {self._link.concern}" if self._link.concern else text

    def _read_error(self, result: TaskResult) -> BaseException:
        return read_error(result, self._name_of(result.task_id))

    def _unread_result(self, error: BaseException, task_id: bytes) -> BaseException:
        return unread_result(error, self._name_of(task_id))

    def _name_of(self, task_id: bytes) -> str:
        return name_of_item(self._function.instruction.name, index_of(task_id), self._items)

    def _put(self, task_id: bytes, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self._tolerance.take(error, self._done + 1)
            value = error
            self._failed += 1
        index = int.from_bytes(task_id[PREFIX_BYTES:], "big")  # as `index_of`, without a call for each result
        if error is None or self._tolerance.returns_exceptions:
            self._keep(index, value)
        self._done += 1
        if self._open_bytes and index in self._open_bytes:
            self._open_bytes_sum -= self._open_bytes.pop(index)

    def _end(self) -> None:
        """Nobody will read the results that have not come."""
        self._is_over = True
        self._link.abandon(self)

    # For the link's thread

    def _take_drawn(self) -> Iterator[Entry]:
        """Return the tasks of the rows that were drawn."""
        self._is_drawing = False
        drawn = self._drawn
        while drawn and not self._is_over:
            first, row = drawn[0]
            blocks: list[bytes] = []
            frames: list[Buffer] = []
            most, n_bytes = self._rows_now(WINDOW_TASKS, len(drawn)), 0
            while len(blocks) < most and n_bytes <= RANGE_BYTES:
                row = drawn[0][1]
                block = row if isinstance(row, bytes) and not frames else _block_beside(row, len(blocks), frames)
                if block is None:
                    break
                blocks.append(block)
                n_bytes = sum(map(len, blocks)) + size_of(frames) if frames else n_bytes + len(block)
                drawn.popleft()
            if blocks:
                yield self._range_entry(first, blocks, frames)
            elif not isinstance(row, bytes):
                drawn.popleft()
                yield row

    def _deliver_rows(self, result: TaskResult) -> None:
        """Take a result while some are those of ranges."""
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


def _block_beside(row: bytes | Entry, n_rows: int, frames: list[Buffer]) -> bytes | None:
    """Return the block of a row that may be in a task with so many others that have these frames, and add its own;
    None: it may not.
    """
    if isinstance(row, bytes):
        return None
    task, _sink, _function, objects, references = row
    if objects or references or task.object_ids or len(task.frames) * n_rows != len(frames):
        return None
    frames += task.frames
    return task.payload
