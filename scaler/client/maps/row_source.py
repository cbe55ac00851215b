"""RowSource: the items of one map, and the rows made of them, until the link takes them.

The thread of the user draws items and packs them. The link's thread takes rows, and sends as many of them in one task
as fit into the expected run time and the size of a range. What a range returns is opened again by the scheduler, which
has its rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from scaler.client.calls.entry import RUN_OPTIONS, Entry, RowSink, Terms, needs_of
from scaler.client.calls.functions import NO_KEYWORDS, Function
from scaler.client.calls.inputs import Input
from scaler.client.calls.items import UNFIT, check_item, close_items, of_item
from scaler.client.calls.job_names import MAP_WINDOW
from scaler.client.calls.repeated_values import RepeatedValues
from scaler.client.link.link import ClientLink
from scaler.ids import PREFIX_BYTES, TaskId, random_id
from scaler.pickling.serialization import Buffer, size_of
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.rows import RANGE_BYTES, rows_together

WINDOW_BYTES = 256 * 1024 * 1024
"""The maximum size of the arguments of all open tasks, in bytes; only the last task may exceed this limit."""

BATCH_TASKS = 64
"""The maximum number of items that are drawn at a time, unless a range has more rows."""

COUNTED_BYTES = 4096
"""The size up to which the arguments of a task are not counted, because the number of tasks bounds their memory."""

NOT_YET = object()
"""The placeholder that an iterator returns if it has no item at the moment, and may have one later."""


class RowSource:
    """The items of one map in the order of the user's iterable.

    Args:
        repeated: sends a value that several tasks share only once; None: each task sends its own values.
        rows_most: the most rows of a range, beside the limit of the scheduler.
    """

    n_items = -1
    """the number of items; -1 if the iterable is not a list or tuple, so that an item may be slow to come"""
    n_drawn = 0
    """the number of items that were drawn, and the number of the next one"""
    is_exhausted = False
    is_interrupted = False
    """whether the caller has to look at results before it draws a further item; any thread may set it"""
    _is_drawing = False
    """whether the link's thread has been notified of the rows in `_drawn`"""
    _is_over = False
    """whether the map has ended, so that no further rows are sent"""
    _refers = False
    """whether a row that was drawn and not submitted needs objects or results that must be sent before it"""
    _message_bytes = 0.0
    """the size of the rows that are drawn together; infinite if the next one must wait"""

    def __init__(
        self,
        function: Function,
        terms: Terms,
        link: ClientLink,
        repeated: RepeatedValues | None = None,
        rows_most: int = MAP_WINDOW,
    ) -> None:
        self.function = function
        self.items: Iterable[Sequence[Any]] = ()
        self._rest: Iterator[Sequence[Any]] = iter(())
        self._terms = terms
        self._link = link
        self._repeated = repeated
        self._rows_most = rows_most
        self._suits_rows = RunOptions.decode(terms[RUN_OPTIONS]).suit_rows
        self._id_prefix = random_id()[:PREFIX_BYTES]
        self.unfit: list[tuple[int, Exception]] = []
        """the numbers of the items that cannot be sent, each with its error; the caller takes them"""
        self.needs: dict[int, Sequence[tuple[str, Input]]] = {}
        """number of an open task with futures among its arguments -> the labels and inputs of these futures"""
        self._open_bytes: dict[int, int] = {}
        self.open_bytes = 0
        """the size of the arguments of all open tasks, without small ones"""
        self._drawn = DrawnRows(0)
        """rows that the link's thread has not taken yet"""

    def begin(self, items: Iterable[Sequence[Any]]) -> None:
        """Take the items of the map."""
        self.items, self._rest = items, iter(items)
        # Items of a list are available at once. Other iterables may be slow, so no item waits for the next one.
        self.n_items = len(items) if isinstance(items, (list, tuple)) else -1

    def end(self) -> None:
        """Send no further rows, and close the user's iterator if it can be closed."""
        self._is_over = True
        self._repeated = None  # an error that the user keeps would keep its objects
        rest, self._rest = self._rest, iter(())
        if not self.is_exhausted:
            close_items(rest)

    # Sizes

    def id_of(self, index: int) -> TaskId:
        """Return the id of the task of an item."""
        return TaskId(self._id_prefix + index.to_bytes(8, "big"))

    @property
    def is_full(self) -> bool:
        """Whether the arguments of the open tasks take all the memory that they may."""
        return self.open_bytes > WINDOW_BYTES

    @property
    def is_duration_unknown(self) -> bool:
        """Whether ranges would be larger if the run time of a row was known."""
        if self._link.rows_most <= 1 or not self._suits_rows:
            return False
        return self._link.durations.known_us(self.function.instruction.object_id) == 0.0

    def learn(self, total_us: int, rows: int) -> None:
        """Learn the run time of rows, for the size of further ranges."""
        if rows and self._link.rows_most > 1:
            self._link.durations.learn(self.function.instruction.object_id, total_us or 1, rows)

    def _next_range_size(self, left: int) -> int:
        if left <= 1 or self._link.rows_most <= 1 or not self._suits_rows:
            return 1
        mean_us = self._link.durations.expected_us(self.function.instruction.object_id)
        return rows_together(self._link.rows_most, mean_us, min(left, self._rows_most))

    def forget(self, index: int, n_rows: int = 1) -> None:
        """Forget the arguments of tasks that have ended."""
        if self._open_bytes:
            self.open_bytes -= sum(self._open_bytes.pop(each, 0) for each in range(index, index + n_rows))
        if self.needs:
            for each in range(index, index + n_rows):
                self.needs.pop(each, None)

    # Drawing

    def draw(self, sink: RowSink, capacity: int, results: Collection[Any] = ()) -> int:
        """Draw items, at most `capacity`, and pass their rows to the link's thread. Return the number of items.

        It stops after a row whose values are sent as objects, when the rows fill a message, when `is_interrupted`, and,
        if an item may be slow to come, when there are `results`.

        Args:
            sink: receives the results of the rows; not kept, because it has this object.

        Raises:
            TypeError: if an item is neither a tuple nor a list.
        """
        is_lazy = self.n_items < 0
        rows = 1 if is_lazy else self._next_range_size(self.n_items - self.n_drawn)
        most = min(capacity, rows * max(1, BATCH_TASKS // rows))
        drawn: list[bytes | Entry] = []
        before = first = index = self.n_drawn
        self._message_bytes, block_of = 0, self.function.block
        for item in islice(self._rest, most):
            if item is NOT_YET:
                break
            if type(item) is not tuple:
                check_item(index, item)
            try:
                drawn.append(block_of(item) or self._entry_of(sink, index, item))
            except UNFIT as error:
                self._refuse(index, error)
            index += 1
            if is_lazy or index - first > len(drawn):  # the next row does not follow the last one
                self._submit_drawn(sink, first, drawn)
                drawn, first = [], index
            if self._message_bytes > RANGE_BYTES or self.is_interrupted or (is_lazy and results):
                break
        else:
            self.is_exhausted = index - before < most or index == self.n_items
        self._submit_drawn(sink, first, drawn)
        self.n_drawn = index
        return index - before

    def _refuse(self, index: int, error: Exception) -> None:
        """Keep the error of an item that cannot be sent."""
        unfit = of_item(error, index)
        unfit.__cause__ = error.__cause__
        self.unfit.append((index, unfit))

    def _entry_of(self, sink: RowSink, index: int, item: Sequence[Any]) -> Entry:
        pack = None if self._repeated is None else self._repeated.pack
        entry = self.function.entry(self.id_of(index), sink, item, NO_KEYWORDS, self._terms, pack)
        task, objects = entry[0], entry[3]
        if task.inputs:
            self.needs[index] = needs_of(entry[4])
        size_bytes = len(task.payload) + size_of(task.frames) + sum(size_of(each.frames) for each in objects)
        self._refers = self._refers or bool(task.object_ids or task.inputs)
        if self._repeated is not None:
            size_bytes += self._repeated.take_bytes()
        if size_bytes > COUNTED_BYTES:
            self._open_bytes[index] = size_bytes
            self.open_bytes += size_bytes
        self._message_bytes += inf if objects or self.is_full else size_bytes
        return entry

    def _submit_drawn(self, sink: RowSink, first: int, drawn: Sequence[bytes | Entry]) -> None:
        """Pass consecutive rows to the link's thread, which sends whole ranges.

        Rows that refer to objects or tasks start a new queue, because rows in the earlier queue may be sent before
        these objects and tasks.
        """
        if not drawn:
            return
        if self._refers or first != self._drawn.end:
            self._drawn, self._is_drawing, self._refers = DrawnRows(first), False, False
        self._drawn.rows.extend(drawn)
        self._drawn.end += len(drawn)
        if not self._is_drawing:
            self._is_drawing = True
            self._link.submit_rows(partial(self._take, sink, self._drawn), sink)

    # For the link's thread

    def _take(self, sink: RowSink, drawn: DrawnRows) -> Iterator[Entry]:
        if drawn is self._drawn:
            self._is_drawing = False
        while drawn.rows and not self._is_over:
            left = len(drawn.rows) if self.n_items < 0 else self.n_items - drawn.first
            taken = drawn.take(self._next_range_size(left))
            if isinstance(taken, TakenRows):
                first = self.id_of(taken.first)
                sink.expect_rows()
                yield self.function.range_entry(first, sink, taken.blocks, taken.frames, self._terms)
            else:
                yield taken


class TakenRows(NamedTuple):
    """Rows that are sent as one task: the block of arguments of each row, and the frames of all rows."""

    first: int
    blocks: list[bytes]
    frames: list[Buffer]
    """the frames of all rows, in their order; each row has the same number of frames"""


class DrawnRows:
    """Consecutive rows of a map that were read from the iterable and not sent yet.

    `first` is the number of the first one, `end` that of the row after the last one. The two threads change one each.

    A row of plain arguments is stored as its block, any other row as a whole task. One thread appends rows, and another
    thread takes them.
    """

    __slots__ = ("end", "first", "rows")

    def __init__(self, first: int) -> None:
        self.first = self.end = first
        self.rows: deque[bytes | Entry] = deque()

    def take(self, most: int) -> TakenRows | Entry:
        """Take up to `most` rows for one task. If the first row must be a task of its own, take only that row."""
        first, rows = self.first, self.rows
        blocks: list[bytes] = []
        frames: list[Buffer] = []
        n_bytes = 0
        for _ in range(min(most, len(rows))):
            row = rows.popleft()
            if isinstance(row, bytes) and not frames:
                blocks.append(row)
                n_bytes += len(row)
            elif not isinstance(row, bytes) and _has_same_frame_count(row, len(blocks), frames):
                blocks.append(row[0].payload)
                frames += row[0].frames
                n_bytes += len(row[0].payload) + size_of(row[0].frames)
            elif blocks:
                rows.appendleft(row)
                break
            else:
                self.first += 1
                assert not isinstance(row, bytes)
                return row
            if n_bytes > RANGE_BYTES:
                break
        self.first += len(blocks)
        return TakenRows(first, blocks, frames)


def _has_same_frame_count(row: Entry, n_rows: int, frames: Sequence[Buffer]) -> bool:
    """Return whether a row has no objects, and as many frames as each of `n_rows` rows, which have `frames` in all."""
    task, _sink, _function, objects, references = row
    return not (objects or references or task.object_ids) and len(task.frames) * n_rows == len(frames)
