"""LargeValues: decides which large results of a map are fetched now, and which wait until earlier results are read.

Used by the streams of both clients: a slow reader would otherwise hold a whole window of large results in the memory of
the program. Any thread may call. `LargeValues` neither waits nor fetches; `ResultFetch` fetches one large result.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from scaler.client.calls.entry import MakeError, ResultFetcher
from scaler.client.outcome import missing_result
from scaler.ids import ObjectId
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import TaskResult

LARGE_BYTES = 1 << 20
"""The size from which on a value is not unpickled in the thread of an event loop."""

UNREAD_BYTES = 256 * 1024 * 1024
"""The maximum number of bytes of fetched and unread results. Above this limit, no further result is fetched."""


class LargeValues:
    """The large results of one map, by the numbers of their items."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._is_over = False
        self.fetched: dict[int, int] = {}
        """the sizes in bytes of the fetched and unread results, by number; read-only for callers"""

    def add(self, key: int, size: int) -> list[int] | None:
        """Add a large result, which may have been lost before. Return those to fetch now; None if the map is over."""
        with self._lock:
            if self._is_over:
                return None
            self._waiting.append((key, size))
            return self._next_after(key)

    def read(self, key: int) -> list[int]:
        """Note that a result, large or not, was read. Return the large results to fetch now."""
        with self._lock:
            return self._next_after(key)

    def end(self) -> list[int]:
        """End the map. Return the results that were not fetched."""
        with self._lock:
            self._is_over = True
            waiting, self._waiting = self._waiting, deque()
            return [key for key, _ in waiting]

    def _next_after(self, key: int) -> list[int]:
        self._bytes -= self.fetched.pop(key, 0)
        due: list[int] = []
        while self._waiting and self._bytes <= UNREAD_BYTES:
            key, size = self._waiting.popleft()
            self.fetched[key] = size
            self._bytes += size
            due.append(key)
        return due


class ResultFetch(Future[Frames]):
    """The fetch of a large result. If the result is lost, its task runs again; if that run fails, `refusal` is set."""

    def __init__(self, link: ResultFetcher) -> None:
        super().__init__()
        self.refusal: TaskResult | None = None
        self._link = link

    def deliver(self, result: TaskResult) -> None:
        self.set_result([result.payload])

    def refuse(self, result: TaskResult) -> None:
        self.refusal = result
        self.set_result(())

    def store(self, result: TaskResult) -> None:
        self._link.fetch(ObjectId(result.task_id), self)

    def notify(self) -> None:
        """Do nothing: the end of the fetch has already woken all waiting threads."""

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:  # noqa: ARG002
        if frames is None:
            self.set_exception(missing_result())
        else:
            self.set_result(frames)

    def fail(self, make_error: MakeError) -> None:
        self.set_exception(make_error())
