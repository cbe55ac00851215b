"""Pipe: one side of a session. Items become numbered messages, and messages of the other side become batches.

Actors and links put items into the pipe (`put`). An edge sends the messages of the pipe, and gives the pipe the
received messages. The pipe keeps each message until the other side acknowledges it, so a session resumes on another
connection. The pipe has two lanes. Small items are always sent first. Large items are sent in chunks; at most a window
of chunks is unacknowledged at a time. A new session has a new pipe.

The pipe has no socket and no clock. Sizes that a peer only announces take no memory.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from math import inf
from typing import Any, TypeAlias

from scaler.errors import ProtocolError
from scaler.pickling.serialization import size_of
from scaler.wire.codec.anatomy import anatomy
from scaler.wire.codec.codec import (
    MESSAGE_ITEMS,
    UNWRITABLE,
    check_item,
    decode,
    encode_message,
    numbers,
    with_heard,
)
from scaler.wire.messages.client import TaskCancel
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import Chunk
from scaler.wire.messages.directions import Direction
from scaler.wire.session.lane import LARGE_BYTES, MESSAGE_BYTES, BulkLane
from scaler.wire.session.lost_content import without_content
from scaler.wire.session.transfer import WINDOW_BYTES, IncomingTransfer

Message: TypeAlias = tuple[bytes, Sequence[Any]]
"""A message: the header frame and the payload frames."""
OnAcknowledged: TypeAlias = Callable[[Sequence[Any]], None]
Unwritable: TypeAlias = tuple[Any, Exception]
"""An item that cannot be encoded, and the exception that encoding raised."""

WINDOW_LEAST_BYTES = ACKNOWLEDGED_BYTES = 256 * 1024
"""The least size of a window, and the number of received bytes after which a side acknowledges."""
CHUNKS_IN_WINDOW = 16
"""The least number of chunks in a window. Chunks are small: a peer counts as silent until a whole chunk has arrived."""
FAST_WINDOWS = 16
"""The most windows of unacknowledged small items. Further items wait, and then share larger messages."""
_FIRST_SLICE = 512
_CHUNKS = Batch[Chunk]


def _any_room() -> float:
    return inf


class Pipe:
    """One side of a session.

    Args:
        window_bytes: the limit on unacknowledged bytes of large items, at least `WINDOW_LEAST_BYTES`.
        counts: the numbers of items written, by class (`Traffic.items`).
        on_acknowledged: called with the items of each numbered message that the other side has acknowledged, in order.
        room: returns the limit on the size of a large message. If a message is larger, only its header is kept.
        on_bulk_sent: called with items of the bulk lane that were sent completely. Small items that were put later may
            have been sent earlier.
    """

    def __init__(
        self,
        incoming: Direction,
        outgoing: Direction,
        *,
        window_bytes: int = WINDOW_BYTES,
        counts: defaultdict[type, int] | None = None,
        on_acknowledged: OnAcknowledged | None = None,
        room: Callable[[], float] = _any_room,
        on_bulk_sent: OnAcknowledged | None = None,
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._window_bytes = window_bytes
        self._chunk_bytes = min(MESSAGE_BYTES, window_bytes // CHUNKS_IN_WINDOW)
        self._message_bytes = max(LARGE_BYTES, self._chunk_bytes)
        self._large_bytes = max(LARGE_BYTES, self._chunk_bytes // 4)
        self._fast_most = FAST_WINDOWS * window_bytes
        self._counts = counts
        self._on_acknowledged = on_acknowledged
        self._room = room
        self._on_bulk_sent = on_bulk_sent
        self._unsorted: list[Any] = []
        self.put = self._unsorted.append
        self.put_all = self._unsorted.extend
        self._small: deque[tuple[Any, int]] = deque()
        """the small items that wait, each with its size in bytes"""
        self._small_bytes = 0
        self._bulk = BulkLane(outgoing, counts, self._large_bytes)
        self.put_streamed = self._bulk.put_streamed
        """queues an item whose frames arrive part by part (`StreamedFrames`)"""
        self._kept: deque[tuple[int, bytes, Sequence[Any], Sequence[Any], int, bool]] = deque()
        """the unacknowledged messages; each: number, header, frames, items, size, and whether it is of the bulk lane"""
        self._fast_bytes = self._bulk_bytes = 0
        """the unacknowledged bytes of small items (`_fast_bytes`) and of the bulk lane (`_bulk_bytes`)"""
        self._written: list[Message] = []
        """the encoded messages that `take` has not returned, because a later item cannot be encoded"""
        self._slice = _FIRST_SLICE
        """the number of items that make a message of about the best size"""
        self.last_sent = 0
        """the number of the last message sent"""
        self.heard = 0
        """the highest number received from the other side"""
        self.acknowledged = 0
        """the highest number that the other side has acknowledged"""
        self._unanswered_bytes = 0
        """the number of bytes received since this side last sent a message"""
        self._arrival: IncomingTransfer | None = None
        self._n_arrivals = 0

    # Outgoing

    @property
    def has_pending(self) -> bool:
        """Whether items wait to be sent."""
        return bool(self._unsorted or self._small or self._bulk.queue)

    @property
    def is_idle(self) -> bool:
        """Whether no item waits, and all messages are acknowledged."""
        return not (self._kept or self.has_pending)

    def bytes_before(self, item: Any) -> int:
        """Return how many bytes of the bulk lane must be sent before `item`; 0 if `item` need not wait for the lane."""
        return self._bulk.n_bytes if self._bulk.is_followed_by(item) else 0

    @property
    def is_acknowledgement_due(self) -> bool:
        """Whether to acknowledge even if no item waits: `ACKNOWLEDGED_BYTES` were received since the last sent
        message.
        """
        return self._unanswered_bytes >= ACKNOWLEDGED_BYTES

    @property
    def is_ready(self) -> bool:
        """Whether `take` may return a message, either with items or with an acknowledgement that is due."""
        is_due = self._unanswered_bytes >= ACKNOWLEDGED_BYTES
        return is_due or bool(self._unsorted or self._small or self._bulk.queue)

    def take(self) -> list[Message]:
        """Return the messages that may be sent now, which are kept until they are acknowledged.

        If no item may be sent and an acknowledgement is due, return one message without items.

        Raises any of `UNWRITABLE` for an item that cannot be encoded; call `drop_unwritable` to continue.
        """
        messages = self._written
        has_sorted = self._small or self._bulk.queue
        if not has_sorted:
            self._take_unsorted(messages)
        if has_sorted or self._unsorted:
            self._sort()
            self._take_small(messages)
            if not self._small:
                self._take_bulk(messages)
        if messages:
            self._unanswered_bytes = 0
        elif self._unanswered_bytes >= ACKNOWLEDGED_BYTES:
            messages.append(self.unnumbered(()))
        self._written = []
        return messages

    def drop_unwritable(self) -> list[Unwritable]:
        """Remove and return the items that made `take` raise. The next `take` returns all other items."""
        dropped: list[Unwritable] = []

        def is_writable(item: Any) -> bool:
            try:
                check_item(self._outgoing, item)
            except UNWRITABLE as error:
                dropped.append((item, error))
                return False
            return True

        self._unsorted[:] = filter(is_writable, self._unsorted)
        self._small = deque(each for each in self._small if is_writable(each[0]))
        self._small_bytes = sum(size for _, size in self._small)
        self._bulk.keep(is_writable)
        return dropped

    def unnumbered(self, items: Sequence[Any]) -> Message:
        """Return a message that is neither numbered nor kept, such as a hello. Without items, it only acknowledges."""
        self._unanswered_bytes = 0
        return encode_message(self._outgoing, items, 0, self.heard, self._counts)

    def _take_unsorted(self, messages: list[Message]) -> None:
        """Encode the queued items in order, many in each message. Stop at items whose message would be too large."""
        unsorted = self._unsorted
        while unsorted and self._fast_bytes < self._fast_most:
            items, number = unsorted[: self._slice], self.last_sent + 1
            header, frames = encode_message(self._outgoing, items, number, self.heard, self._counts)
            size = len(header) + size_of(frames) if frames else len(header)
            if size > self._message_bytes or (frames and size > self._large_bytes and self._has_large(frames)):
                self._slice = max(1, len(items) * self._message_bytes // (2 * size))
                self._count_off(items)
                return
            if len(items) == self._slice and size < self._message_bytes // 4:
                self._slice = min(2 * self._slice, MESSAGE_ITEMS)
            del unsorted[: len(items)]
            # Inlined `_keep`, to save a call for each message.
            self.last_sent = number
            self._fast_bytes += size
            self._kept.append((number, header, frames, items, size, False))
            messages.append((header, frames))

    def _has_large(self, frames: Sequence[Any]) -> bool:
        """Return whether one of the frames of a message is too large to share the message with other items."""
        return any(memoryview(frame).nbytes > self._large_bytes for frame in frames)

    def _count_off(self, items: Sequence[Any]) -> None:
        """Subtract items from the counts: they were encoded, but not sent in this form."""
        if self._counts is not None:
            for item in items:
                self._counts[type(item)] -= 1

    def _keep(self, header: bytes, frames: Sequence[Any], items: Sequence[Any], size: int, *, is_bulk: bool) -> Message:
        self.last_sent += 1
        if is_bulk:
            self._bulk_bytes += size
        else:
            self._fast_bytes += size
        self._kept.append((self.last_sent, header, frames, items, size, is_bulk))
        return header, frames

    def _sort(self) -> None:
        n_sorted = 0
        try:
            for item in self._unsorted:
                self._give_to_lane(item)
                n_sorted += 1
        finally:  # also if an item cannot be encoded
            del self._unsorted[:n_sorted]

    def _give_to_lane(self, item: Any) -> None:
        bulk = self._bulk
        if bulk.queue and type(item) is TaskCancel and not item.waiting and bulk.withdraw(item):
            return
        size = anatomy(type(item)).size(item)
        if size > self._large_bytes or bulk.is_followed_by(item):
            bulk.put(item, size)
        else:
            self._small.append((item, size))
            self._small_bytes += size

    def _take_small(self, messages: list[Message]) -> None:
        small = self._small
        while small and self._fast_bytes < self._fast_most:
            items: list[Any] = []
            n_bytes = 0
            for item, size in islice(small, MESSAGE_ITEMS):
                if items and n_bytes + size > self._message_bytes:
                    break
                items.append(item)
                n_bytes += size
            messages.append(self._encode_numbered(items, items, is_bulk=False))
            for _ in items:
                small.popleft()
            self._small_bytes -= n_bytes

    def _take_bulk(self, messages: list[Message]) -> None:
        while self._bulk.queue and self._bulk_bytes < self._window_bytes:
            taken = self._bulk.take(self._chunk_bytes)
            if taken is None:
                return
            try:
                messages.append(self._encode_numbered(*taken, is_bulk=True))
            except BaseException:  # an item that cannot be encoded
                if taken[0] is taken[1]:
                    self._bulk.put_back(taken[0])
                raise
            if taken[1] and self._on_bulk_sent is not None:
                self._on_bulk_sent(taken[1])

    def _encode_numbered(self, items: Sequence[Any], done: Sequence[Any], *, is_bulk: bool) -> Message:
        header, frames = encode_message(self._outgoing, items, self.last_sent + 1, self.heard, self._counts)
        return self._keep(header, frames, done, len(header) + size_of(frames), is_bulk=is_bulk)

    # Incoming

    @property
    def arriving_bytes(self) -> int:
        """The received bytes of a large message that has arrived in part."""
        return self._arrival.n_bytes if self._arrival is not None else 0

    def receive(self, header: bytes, frames: Sequence[Any]) -> list[Batch[Any]]:
        """Return the batches of a message; empty for a repeated message, or for a part of a large message.

        Raises:
            ProtocolError: if the message is not the next one of the other side. The pipe cannot continue then.
        """
        number, heard = numbers(self._incoming, header)
        if heard > self.acknowledged:
            self._drop_acknowledged(heard)
        if not number:
            return _without_chunks(decode(self._incoming, header, frames))
        if number <= self.heard:
            return []
        if number != self.heard + 1:
            raise ProtocolError(f"message {number} arrived, and message {self.heard + 1} was expected")
        batches = decode(self._incoming, header, frames)
        self.heard = number
        self._unanswered_bytes += len(header) + size_of(frames) if frames else len(header)
        for batch in batches:
            if type(batch) is _CHUNKS:
                return self._collect(batches)
        return batches

    def _collect(self, batches: list[Batch[Any]]) -> list[Batch[Any]]:
        """Replace each chunk by the batches of the large message that the chunk completes, if any."""
        complete: list[Batch[Any]] = []
        for batch in batches:
            if type(batch) is not _CHUNKS:
                complete.append(batch)
                continue
            for chunk in batch:
                complete += self._add_chunk(chunk)
        return complete

    def _add_chunk(self, chunk: Chunk) -> list[Batch[Any]]:
        if self._arrival is None:
            self._arrival = IncomingTransfer(chunk, self._room())
            self._n_arrivals += 1
        elif chunk.sizes:
            raise ProtocolError("a large message starts while another one is arriving")
        if chunk.transfer != self._n_arrivals:
            raise ProtocolError(f"transfer {chunk.transfer} arrived, and transfer {self._n_arrivals} was expected")
        if not chunk.sizes and not chunk.frames:  # the rest is lost
            self._arrival = None
            return []
        try:
            is_complete = self._arrival.add(chunk.frames)
        except MemoryError:
            size, self._arrival = self._arrival.announced_bytes, None
            raise ProtocolError(f"there is no memory for a message of {size:,} bytes") from None
        if not is_complete:
            return []
        arrival, self._arrival = self._arrival, None
        batches = _without_chunks(decode(self._incoming, *arrival.message()))
        if arrival.has_lost_frames:
            return without_content(self._incoming, batches, arrival.announced_bytes)
        return batches

    # Acknowledgements

    def resume(self, heard: int) -> list[Message]:
        """Resume on a new connection. Return the messages to resend before any other message.

        Args:
            heard: the highest number that the other side has received, from its hello or reply.

        Raises:
            ProtocolError: if `heard` is less than `acknowledged` or greater than `last_sent`. The pipe cannot continue
                then.
        """
        if heard < self.acknowledged:
            raise ProtocolError(
                f"a peer has received only message {heard}, but has acknowledged message {self.acknowledged}"
            )
        self._drop_acknowledged(heard)
        self._unanswered_bytes = 0
        return [(with_heard(header, self.heard), frames) for _, header, frames, *_ in self._kept]

    def unacknowledged(self) -> Iterator[Any]:
        """Return all items that may not have arrived, in order: unacknowledged and pending items."""
        return chain((item for _, _, _, items, *_ in self._kept for item in items), self.pending())

    def pending(self) -> Iterator[Any]:
        """Return all items that have not been sent completely."""
        return chain((item for item, _ in self._small), self._bulk.items(), self._unsorted)

    def withdraw(self, kind: type, after: int) -> list[Any]:
        """Remove and return the small items of a kind, except those in messages up to the number `after`. The caller
        must know that the other side has received no message after that number.
        """
        withdrawn: list[Any] = []
        for position, (number, _, _, items, size, is_bulk) in enumerate(self._kept):
            if number <= after or is_bulk or not any(type(item) is kind for item in items):
                continue
            withdrawn += [item for item in items if type(item) is kind]
            rest = [item for item in items if type(item) is not kind]
            self._count_off(items)
            header, frames = encode_message(self._outgoing, rest, number, self.heard, self._counts)
            smaller = len(header) + size_of(frames)
            self._fast_bytes += smaller - size
            self._kept[position] = (number, header, frames, rest, smaller, False)
        self._sort()
        withdrawn += [item for item, _ in self._small if type(item) is kind]
        self._small = deque((item, size) for item, size in self._small if type(item) is not kind)
        self._small_bytes = sum(size for _, size in self._small)
        return withdrawn

    def on_their_way(self) -> list[Any]:
        """Return the large items that have been sent, completely or in part, and are not acknowledged."""
        bulk = (item for *_, items, _, is_bulk in self._kept if is_bulk for item in items)
        large = [item for item in bulk if anatomy(type(item)).size(item) > self._large_bytes]
        departing = self._bulk.departing
        return large if departing is None else [*large, departing]

    def size_bytes(self) -> int:
        """Return about how many bytes wait or are unacknowledged. Takes time for each item put since the last call."""
        self._sort()
        return self._fast_bytes + self._bulk_bytes + self._small_bytes + self._bulk.n_bytes

    def _drop_acknowledged(self, heard: int) -> None:
        if heard > self.last_sent:
            raise ProtocolError(f"a peer acknowledges message {heard}, but the last one sent is {self.last_sent}")
        self.acknowledged = heard
        kept, on_acknowledged = self._kept, self._on_acknowledged
        while kept and kept[0][0] <= heard:
            _, _, _, items, size, is_bulk = kept.popleft()
            if is_bulk:
                self._bulk_bytes -= size
            else:
                self._fast_bytes -= size
            if on_acknowledged is not None and items:
                on_acknowledged(items)


def _without_chunks(batches: list[Batch[Any]]) -> list[Batch[Any]]:
    if any(type(batch) is _CHUNKS for batch in batches):
        raise ProtocolError("an unexpected chunk: only numbered messages may have chunks")
    return batches
