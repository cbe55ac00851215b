"""Inbox: how other threads reach the link's thread; a queue that wakes it, once for a burst.

Put into by any thread, also by a garbage collection in the middle of anything: so there is no lock, and its
correctness rests on the order in which flags and queue are written and read. Taken from by one thread. Must never
keep an item after the end.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """The queue of one thread.

    Args:
        refuse: what becomes of items that come after the end; called by the thread that put them.
    """

    def __init__(self, refuse: Callable[[T], None]) -> None:
        self._refuse = refuse
        self._queue: deque[T] = deque()
        self.is_asleep = False
        """whether the thread sleeps, or has ended"""
        self._has_ended = False
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self.descriptor = self._receiver.fileno()
        """readable when the thread is to wake up"""

    # For every thread

    def put(self, item: T) -> None:
        self._queue.append(item)
        if self.is_asleep:
            self.rouse()

    def rouse(self) -> None:
        """Wake the thread up."""
        self.is_asleep = False
        if self._has_ended:  # asked after the assignment, so that it stays asleep for ever
            self.is_asleep = True
            self._refuse_all()
            return
        # BlockingIOError: it has reasons enough to wake up. Else: it has ended just now, after a look at the queue.
        with contextlib.suppress(OSError):
            self._sender.send(b"\0")

    def _refuse_all(self) -> None:
        while True:
            try:
                item = self._queue.popleft()
            except IndexError:
                return  # empty, or another thread was faster
            self._refuse(item)

    # For the one thread

    def take(self) -> T | None:
        """Return the next item, or None."""
        return self._queue.popleft() if self._queue else None

    def fall_asleep(self) -> bool:
        """Say that the thread is going to sleep. Returns false if it may not, because there is an item."""
        self.is_asleep = True
        return not self._queue  # asked after the assignment: who puts an item now sees it and wakes the thread

    def wake_up(self, was_roused: bool) -> None:
        """Say that the thread is awake; `was_roused` if the descriptor was readable."""
        self.is_asleep = False
        if was_roused:
            self._receiver.recv(4096)

    def end(self) -> None:
        """Refuse what is there, and what ever comes."""
        self._has_ended = True
        self.is_asleep = True
        self._refuse_all()
        self._sender.close()
        self._receiver.close()

    def leave_to_parent(self) -> None:
        """This is the copy in a forked process: wake nobody, refuse everything."""
        self._queue.clear()
        self._has_ended = self.is_asleep = True
