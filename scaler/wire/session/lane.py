"""Bulk lane: large items, and the items that must follow them, in order.

Large items are sent one after the other, each as a transfer. An item that names another item of the lane is also put in
the lane: a task after its object, a cancel after its task, a task of a graph after earlier tasks of that graph. Small
items of the lane are sent as ordinary messages after the items they follow. The pipe decides when anything may be sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scaler.ids import split_ids
from scaler.wire.codec.anatomy import anatomy
from scaler.wire.codec.codec import MESSAGE_ITEMS, encode_message
from scaler.wire.messages.client import NO_GRAPH, ClientResting, InputResult, Task, TaskCancel
from scaler.wire.messages.common import InstructionKind
from scaler.wire.messages.directions import Direction
from scaler.wire.messages.worker import DisconnectRequest
from scaler.wire.session.streamed import StreamedFrames
from scaler.wire.session.transfer import OutgoingTransfer, StreamedTransfer

MESSAGE_BYTES = 1024 * 1024
"""The limit on the size of a message. Only a message of a single item may be larger."""
LARGE_BYTES = 64 * 1024
"""The size above which an item travels in chunks. A pipe uses a quarter of its chunk size, if that is more."""

_LAST = frozenset((ClientResting, DisconnectRequest))
"""the classes whose items must be sent after all items that were put before them"""


class _Waiting:
    __slots__ = ("is_started", "is_withdrawn", "item", "size")

    def __init__(self, item: Any, size: int) -> None:
        self.item = item
        self.size = size
        self.is_started = False
        self.is_withdrawn = False


class BulkLane:
    """The items of the bulk lane that have not been sent completely; items above `large_bytes` travel in chunks."""

    def __init__(
        self, direction: Direction, counts: defaultdict[type, int] | None, large_bytes: int = LARGE_BYTES
    ) -> None:
        self._direction = direction
        self._large_bytes = large_bytes
        self._counts = counts
        self.queue: deque[_Waiting] = deque()
        """the items that are not sent completely; public because the pipe often checks whether `queue` is empty"""
        self._made: dict[bytes, deque[_Waiting]] = {}
        """for each id, the items in the lane that create the task, object or graph with this id"""
        self._uses: Counter[bytes] = Counter()
        """for each id, the number of items in the lane that name the id but do not create what it identifies"""
        self._departure: OutgoingTransfer | StreamedTransfer | None = None
        self._n_departures = 0
        self._waiting_bytes = 0
        """the total size of the items that were not sent, not even in part"""

    def __len__(self) -> int:
        return len(self.queue)

    @property
    def n_bytes(self) -> int:
        """The unsent bytes of the lane, without streamed values, which are not in the memory of this process."""
        return self._waiting_bytes + (self._departure.bytes_in_memory if self._departure is not None else 0)

    def items(self) -> Iterator[Any]:
        """Return all items that have not been sent completely."""
        return (waiting.item for waiting in self.queue if not waiting.is_withdrawn)

    @property
    def departing(self) -> Any:
        """The item that has been sent in part; None if there is no such item."""
        return self.queue[0].item if self._departure is not None else None

    def is_followed_by(self, item: Any) -> bool:
        """Return whether the lane has an item after which `item` must be sent."""
        if not self.queue:
            return False
        kind = type(item)
        if kind in _LAST or (kind is InputResult and item.task_id in self._uses):
            return True
        return not self._made.keys().isdisjoint(anatomy(kind).named_by(item))

    def put(self, item: Any, size: int) -> None:
        """Add an item of about `size` bytes."""
        self._add(_Waiting(item, size), self.queue.append)

    def put_back(self, items: Sequence[Any]) -> None:
        """Put small items that were taken but not sent at the front of the queue again."""
        for item in reversed(items):
            self._add(_Waiting(item, anatomy(type(item)).size(item)), self.queue.appendleft)

    def keep(self, is_kept: Callable[[Any], bool]) -> None:
        """Remove the items for which `is_kept` returns False, except an item that was sent in part."""
        for waiting in list(self.queue):
            if not (waiting.is_started or waiting.is_withdrawn or is_kept(waiting.item)):
                waiting.is_withdrawn = True
                self._forget(waiting)
        self._drop_withdrawn()

    def _add(self, waiting: _Waiting, enqueue: Callable[[_Waiting], None]) -> None:
        item, kind = waiting.item, anatomy(type(waiting.item))
        made = kind.made_by(item)
        for each in made:
            self._made.setdefault(each, deque()).append(waiting)
        self._uses.update(named for named in kind.named_by(item) if named not in made)
        enqueue(waiting)
        self._waiting_bytes += waiting.size

    def put_streamed(self, item: Any) -> None:
        """Add an item whose frames are `StreamedFrames`."""
        self.put(item, self._large_bytes + 1)

    def withdraw(self, cancel: TaskCancel) -> bool:
        """Remove a cancelled task and the objects made for this task alone. Return whether the task was removed.

        If the task or such an object was sent in part, nothing is removed, and the cancel must be sent. Tasks of graphs
        are not removed, because the number of the tasks before it is the position of a task in its graph.
        """
        makers = self._made.get(cancel.task_id, ())
        task = next((waiting for waiting in makers if type(waiting.item) is Task), None)
        if task is None or task.is_started or cancel.graph_id != NO_GRAPH or task.item.graph_id != NO_GRAPH:
            return False
        own: list[_Waiting] = []
        for object_id in split_ids(task.item.object_ids):
            made = self._made.get(object_id)
            if made is None:
                return False
            if len(made) > 1 or self._uses[object_id] > 1 or made[0].item.kind != InstructionKind.CREATE_FOR_TASK:
                continue
            if made[0].is_started:
                return False
            own.append(made[0])
        for waiting in (task, *own):
            waiting.is_withdrawn = True
            self._forget(waiting)
        self._drop_withdrawn()
        return True

    def take(self, most_bytes: int) -> tuple[list[Any], Sequence[Any]] | None:
        """Take the next message, with a chunk of at most `most_bytes`. Return its items, and the items of the lane that
        are sent completely with it; None while the first item waits for a part of a streamed value.
        """
        first = self.queue[0]
        if first.size <= self._large_bytes:
            items = self._small_items(max(most_bytes, self._large_bytes))
            for _ in items:
                self._drop_first()
            return items, items
        if self._departure is None:
            header, frames = encode_message(self._direction, [first.item], counts=self._counts)
            self._n_departures += 1
            if frames and type(frames[0]) is StreamedFrames:
                self._departure = StreamedTransfer(self._n_departures, header, frames[0])
            else:
                self._departure = OutgoingTransfer(self._n_departures, [header, *frames])
            first.is_started = True
            self._waiting_bytes -= first.size
        chunk = self._departure.next(most_bytes)
        if chunk is None:
            return None
        if self._departure.left_bytes:
            return [chunk], ()
        self._departure = None
        self._drop_first()
        return [chunk], [first.item]

    def _small_items(self, most_bytes: int) -> list[Any]:
        """Return the next small items, as many as one message holds."""
        items: list[Any] = []
        size = 0
        for waiting in self.queue:
            if waiting.is_withdrawn:
                continue
            size += waiting.size
            if waiting.size > self._large_bytes or (items and size > most_bytes) or len(items) == MESSAGE_ITEMS:
                break
            items.append(waiting.item)
        return items

    def _drop_first(self) -> None:
        self._forget(self.queue.popleft())
        self._drop_withdrawn()

    def _drop_withdrawn(self) -> None:
        while self.queue and self.queue[0].is_withdrawn:
            self.queue.popleft()

    def _forget(self, waiting: _Waiting) -> None:
        item, kind = waiting.item, anatomy(type(waiting.item))
        if not waiting.is_started:
            self._waiting_bytes -= waiting.size
        made = kind.made_by(item)
        for each in made:
            makers = self._made[each]
            makers.remove(waiting)
            if not makers:
                del self._made[each]
        for named in kind.named_by(item):
            if named not in made:
                self._uses[named] -= 1
                if not self._uses[named]:
                    del self._uses[named]
