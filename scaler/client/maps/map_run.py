"""MapRun: one call of `Client.map`, from the first item to the last result.

Used in the thread that called `Client.map`, in steps that do not wait: `step` draws items or reads results, and `wait`
waits until there is more to do. A coroutine of the asyncio client takes the same steps, and waits in its own way. The
link's thread appends results to a queue, and wakes the caller only when many of the open tasks have ended or something
failed. The task of an item has no future. The number of open tasks is bounded, so the arguments of any number of items
fit into memory. When the map raises, its open tasks are cancelled.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence, Sized
from contextlib import suppress
from itertools import repeat
from math import inf
from typing import Any, NamedTuple, Protocol

from scaler import task_context
from scaler.client.calls.entry import MakeError, Terms
from scaler.client.calls.functions import Function
from scaler.client.calls.inputs import blamed
from scaler.client.calls.items import name_of_item, named_item
from scaler.client.calls.repeated_values import RepeatedValues
from scaler.client.calls.tolerance import FailureTolerance
from scaler.client.large_values import LARGE_BYTES
from scaler.client.link.link import ClientLink
from scaler.client.maps.row_source import RowSource
from scaler.client.outcome import missing_result, read_error, read_value, unread_result
from scaler.client.progress.bar import REDRAW_SECONDS, Progress, Reports
from scaler.errors import is_error_of_task
from scaler.ids import PREFIX_BYTES, ObjectId, TaskId, index_of
from scaler.interruptions import is_interruption
from scaler.pickling.serialization import Frames, Serializer, reader_of, size_of
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.rows import RowsError, rows_of, unpack

__tracebackhide__ = is_error_of_task

PROBE_ROWS = 256
"""The number of rows that a map submits before it waits for its first result, if the duration of a row is unknown."""
PROBE_SECONDS = 0.03
"""The longest wait for the first result of a map."""

CHECK_SECONDS = 0.02
"""How often the progress bar is drawn and the time-out is checked while items are submitted."""

ROWS_A_STEP = 4096
"""The number of results from which on a step reads no further ones, if a step must not take long."""


class Wake(Protocol):
    """An event that wakes the caller of a map: a `threading.Event`, or its counterpart for an event loop."""

    def set(self) -> None: ...

    def clear(self) -> None: ...


class MapCall(NamedTuple):
    """The arguments of a call of `map` or `map_unordered`.

    Attributes:
        window: the most tasks that are open and, in `map_unordered`, have unread results.
        timeout: the longest duration of the map, in seconds, or None.
        max_failures: the maximum number of tasks that may fail, see `FailureTolerance`.
        repeated: sends a value that several tasks share only once; None: each task sends its own values.
    """

    function: Function
    terms: Terms
    serializer: Serializer
    link: ClientLink
    window: int
    timeout: float | None = None
    return_exceptions: bool = False
    max_failures: float | None = None
    repeated: RepeatedValues | None = None


class MapRun:
    """The tasks of one map: receives their results, and fetches large results.

    Args:
        wake: wakes the caller in its wait.
        rows_a_step: the number of results from which on a step reads no further ones.
    """

    _progress: Progress | None = None
    _wait_seconds: float | None = None
    """how long the caller waits at most, in addition to the other reasons to end a wait; None: no limit"""

    def __init__(self, call: MapCall, wake: Wake | None = None, rows_a_step: float = inf) -> None:
        self._call = call
        self._serializer, self.link = call.serializer, call.link
        self._window = call.window
        self.source = RowSource(call.function, call.terms, call.link, call.repeated, call.window)
        self._tolerance = FailureTolerance(call.return_exceptions, call.max_failures, call.function.instruction.name)
        self._deadline = None if call.timeout is None else time.monotonic() + call.timeout
        self._rows_a_step = rows_a_step
        self.results: list[Any] = []
        self._keep: Callable[[int, Any], object] = self.results.__setitem__
        self._done = self._failed = 0
        self._is_filling = True
        """whether items are drawn until the window is full, rather than only when many of the open tasks have ended"""
        self._is_starved = False
        """whether further items may be drawn, and none is there at the moment: the next one is drawn as it comes"""
        self._check_at = inf if self._deadline is None else -inf
        """while items are drawn: when the clock and the arrived results are checked next"""
        # Between the two threads:
        self._arrived: deque[TaskResult] = deque()
        self._arrived_frames: deque[tuple[ObjectId, Frames | None]] = deque()
        self._arrived_errors: deque[tuple[TaskId, MakeError]] = deque()
        self._error: MakeError | None = None
        self._open_target = 0
        self._wake = threading.Event() if wake is None else wake
        self.deliver: Callable[[TaskResult], None] = self._arrived.append
        self._extra_rows = [0, 0]
        """how many more rows than results (a range has many rows and one result): of all that have arrived, and of
        those read
        """

    def run(self, items: Iterable[Sequence[Any]], progress: bool) -> list[Any]:
        """Run one task for each item and return the results in the order of the items.

        Raises:
            TypeError: if an item is neither a tuple nor a list.
            TimeoutError: if the map took longer than its time-out.
            BaseException: the exception of the first task that failed, or of the first item that cannot be sent.
        """
        is_complete = False
        try:
            self.begin(items, progress)
            while not self.is_over():
                if not self.step():
                    self.wait()
            is_complete = True
        finally:
            self.end(is_complete)
        return self.results

    # Steps

    def begin(self, items: Iterable[Sequence[Any]], progress: bool = False) -> None:
        """Take the items of the map. `end` must follow."""
        self.source.begin(items)
        if progress:
            self._check_at = -inf
            link, reports = self.link, Reports(self.link.read_oldest_report)
            notes = lambda: link.concern or reports.text()  # noqa: E731
            self._progress = Progress(len(items) if isinstance(items, Sized) else None, sys.stderr, notes)

    def is_over(self) -> bool:
        """Whether all items were drawn and all tasks have ended. Raises if too many of them failed."""
        if not self.source.is_exhausted or self._done < self.source.n_drawn:
            return False
        self._tolerance.judge(self._done, is_end=True)
        return True

    def end(self, is_complete: bool) -> None:
        """End the map. If it is not complete, its open tasks are cancelled and the user's iterator is closed."""
        self.deliver = _ignore  # else it would be a cycle, which keeps items and results
        try:
            self.source.end()
        finally:
            if not is_complete:
                self.link.abandon(self)
            if self._progress is not None:
                self._progress.finish(self._done, self._failed)

    def step(self) -> bool:
        """Read results that have arrived, or draw items. Return False if the caller must wait first."""
        if self._has_news():
            self.collect()
            return True
        source = self.source
        if not self._is_filling:
            self._is_filling = self._may_fill()
        capacity = 0 if source.is_exhausted or not self._is_filling else self.capacity()
        n_drawn = self._draw(capacity) if capacity > 0 else 0
        if self._is_probe_due():
            # The duration of the first result shows how many rows each further task should have.
            self._open_target, self._wait_seconds = self._n_open - 1, PROBE_SECONDS
            return self._is_ready()
        self._is_starved = capacity > 0 and not n_drawn and not source.is_exhausted
        if n_drawn or (capacity > 0 and source.is_exhausted):
            return True
        self._is_filling, self._wait_seconds = self._is_starved, None
        self._open_target = self._next_target() if capacity <= 0 else self._n_open - 1
        return self._is_ready()

    def _draw(self, capacity: int) -> int:
        source = self.source
        if source.n_items < 0 and self._check_at < inf:
            capacity = 1  # an item may be slow to come
        n_drawn = source.draw(self, capacity, self._interrupting())
        self._make_room(n_drawn)
        for index, error in source.unfit:
            self._put(source.id_of(index), None, error)
        source.unfit.clear()
        return n_drawn

    def _is_probe_due(self) -> bool:
        source = self.source
        if source.n_drawn % PROBE_ROWS or source.n_items < 0 or source.is_exhausted or self.link.is_nested:
            return False
        return self._is_filling and source.is_duration_unknown

    # What differs if results are read while the map runs

    def _make_room(self, n_drawn: int) -> None:
        """Make room for the results of items that were drawn."""
        self.results.extend(repeat(None, n_drawn))

    def _interrupting(self) -> Collection[Any]:
        """Return the queue of results that end the drawing of items which may be slow to come."""
        return ()

    def _has_news(self) -> bool:
        """Return whether results must be read before further items are drawn."""
        if self.source.is_interrupted or (self._check_at < inf and time.monotonic() >= self._check_at):
            return True
        if self._is_filling and not self._is_starved:
            return bool(self._arrived) and self.source.is_duration_unknown
        return self._has_arrived() and self._is_ready()

    def _has_arrived(self) -> bool:
        return bool(self._arrived or self._arrived_frames or self._arrived_errors)

    def capacity(self) -> int:
        """Return how many more items may be drawn now."""
        return 0 if self.source.is_full else self._window - self._n_open

    def _may_fill(self) -> bool:
        return self._n_open <= self._window * 3 // 4 and not self.source.is_full

    def _next_target(self) -> int:
        """Return how many tasks are open when the next wait ends."""
        if self.source.is_full:
            return self._n_open - 1
        # Half of the open tasks each time: results are read while others run, with few wake-ups.
        return self._n_open // 2 if self.source.is_exhausted else self._window * 3 // 4

    @property
    def _n_open(self) -> int:
        return self.source.n_drawn - self._done

    # Waiting

    def begin_wait(self) -> bool:
        """Prepare a wait. Return False if there is something to do already."""
        self._wake.clear()
        return not self._is_ready()

    def wait(self) -> None:
        """Wait until there is something to do, and read what has arrived."""
        if not self.begin_wait():
            return
        seconds = self.seconds_to_wait()
        with task_context.current.wait(self.link, self._is_ready, seconds):
            assert isinstance(self._wake, threading.Event)
            self._wake.wait(seconds)
        self.collect()

    def seconds_to_wait(self) -> float | None:
        """Return the longest time that the caller may wait, in seconds: until a redraw or the deadline is due."""
        limits = [] if self._wait_seconds is None else [self._wait_seconds]
        if self._deadline is not None:
            limits.append(max(0.0, self._deadline - time.monotonic()))
        if self._progress is not None:
            limits.append(REDRAW_SECONDS)
        return min(limits, default=None)

    def _is_ready(self) -> bool:
        n_arrived = len(self._arrived) + self._extra_rows[0] - self._extra_rows[1] + len(self._arrived_frames)
        return self.source.is_interrupted or self._n_open - n_arrived - len(self._arrived_errors) <= self._open_target

    # Collecting

    def collect(self) -> None:
        """Read the results that have arrived. Raises the error of the first failed task, or that of the whole map."""
        self.source.is_interrupted = False  # urgent results have arrived, and are read now
        self._collect_results()
        while self._arrived_frames:
            object_id, frames = self._arrived_frames.popleft()
            value, error = (None, missing_result()) if frames is None else read_value(self._serializer, frames)
            self._put(object_id, value, error and self._unread_result(error, object_id))
        while self._arrived_errors:
            task_id, make_error = self._arrived_errors.popleft()
            self._put(task_id, None, named_item(make_error(), index_of(task_id)))
        if self._error is not None:
            raise self._error()
        self._tolerance.judge(self._done)
        if self._check_at < inf:
            self._check_at = time.monotonic() + CHECK_SECONDS
        if self._progress is not None:
            self._progress.update(self._done, self._failed)
        if self._deadline is not None and time.monotonic() >= self._deadline and not self._has_all():
            raise TimeoutError(self._timeout_text())

    @property
    def has_large_values(self) -> bool:
        """Whether a value has arrived that takes long to unpickle."""
        return any(frames is not None and size_of(frames) >= LARGE_BYTES for _, frames in list(self._arrived_frames))

    def _has_all(self) -> bool:
        return self.source.is_exhausted and self._done >= self.source.n_drawn

    def _collect_results(self) -> None:
        """Read small results, but not many more than a step may read."""
        arrived, serializer, put = self._arrived, self._serializer, self._put
        total_us = count = 0
        for _ in range(len(arrived)):
            if count >= self._rows_a_step:
                self.source.is_interrupted = True  # the next step reads on
                break
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
        self.source.learn(total_us, count)

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
        except BaseException as failure:
            if is_interruption(failure):
                raise
        self._keep_all(first, values)
        self._done += len(values)
        self.source.forget(first, len(values))
        for index, block in enumerate(blocks[len(values) :], first + len(values)):  # the first of these cannot be read
            task_id = self.source.id_of(index)
            value, error = read_value(self._serializer, (block,))
            self._put(task_id, value, error and self._unread_result(error, task_id))

    def _keep_all(self, first: int, values: list[Any]) -> None:
        self.results[first : first + len(values)] = values

    def _timeout_text(self) -> str:
        source = self.source
        all_of = len(source.items) if isinstance(source.items, Sized) else f"the first {source.n_drawn}"
        text = f"the map has {self._done} of {all_of} results after {self._call.timeout:g} s"
        return f"{text}: {self.link.concern}" if self.link.concern else text

    def _read_error(self, result: TaskResult) -> BaseException:
        name = self._name_of(result.task_id)
        return read_error(result, blamed(name, self.source.needs.get(index_of(result.task_id), ())))

    def _unread_result(self, error: BaseException, task_id: bytes) -> BaseException:
        return unread_result(error, self._name_of(task_id))

    def _name_of(self, task_id: bytes) -> str:
        return name_of_item(self.source.function.instruction.name, index_of(task_id), self.source.items)

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
        self.source.forget(index)

    # For the link's thread

    def _deliver_rows(self, result: TaskResult) -> None:
        if result.rows:
            self._extra_rows[0] += result.rows - 1
            if result.statuses:
                self.source.is_interrupted = True
        self._arrived.append(result)

    def expect_rows(self) -> None:
        self.deliver = self._deliver_rows

    def refuse(self, result: TaskResult) -> None:
        self._deliver_rows(result)
        self.source.is_interrupted = True

    def store(self, result: TaskResult) -> None:
        self.link.fetch(ObjectId(result.task_id), self)

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:
        self._arrived_frames.append((object_id, frames))
        self.notify()

    def fail(self, make_error: MakeError) -> None:
        self._error = make_error
        self.source.is_interrupted = True
        self._wake.set()

    def fail_task(self, task_id: TaskId, make_error: MakeError) -> None:
        self._arrived_errors.append((task_id, make_error))
        self.source.is_interrupted = True
        self._wake.set()

    def notify(self) -> None:
        if self._is_ready():
            self._wake.set()


def _ignore(_result: TaskResult) -> None:
    """Ignore a result that arrives after the end of its map."""
