"""Inbox: a queue from all threads to the link's thread, with one wake-up per burst.

Any thread may put an item, even during a garbage collection. So there is no lock; instead, flags and queue are read and
written in a certain order. One thread takes items.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Takes items from all threads for one thread, and wakes that thread if it sleeps.

    Args:
        refuse: handles an item that is put after the end of the inbox, in the thread that puts it.
    """

    def __init__(self, refuse: Callable[[T], None]) -> None:
        self._refuse = refuse
        self._queue: deque[T] = deque()
        self.is_asleep = False
        """whether the thread that takes items sleeps, or has ended"""
        self._has_ended = False
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self.descriptor = self._receiver.fileno()
        """a descriptor that is readable when the thread that takes items must wake up"""

    # For every thread

    def put(self, item: T) -> None:
        self._queue.append(item)
        if self.is_asleep:
            self.rouse()

    def rouse(self) -> None:
        """Wake the thread that takes items."""
        self.is_asleep = False
        # Checked after the store: `end` may have run in between, and then nothing will wake the thread again.
        if self._has_ended:
            self.is_asleep = True
            self._refuse_all()
            return
        # BlockingIOError: it was woken already. Other errors: it has just ended, after a check of the queue.
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

    @property
    def has_items(self) -> bool:
        return bool(self._queue)

    def take(self) -> T | None:
        """Return the next item, or None if the queue is empty."""
        return self._queue.popleft() if self._queue else None

    def fall_asleep(self) -> bool:
        """Mark the thread that takes items as asleep. Return False if an item waits: the thread must not sleep then."""
        self.is_asleep = True
        # Checked after the store: a thread that puts an item now sees the flag and wakes this one.
        if self._queue:
            self.is_asleep = False  # else a direct submit would be sent before the queued item
            return False
        return True

    def wake_up(self, was_roused: bool) -> None:
        """Mark the thread that takes items as awake. `was_roused`: whether it woke because of `descriptor`."""
        self.is_asleep = False
        if was_roused:
            self._receiver.recv(4096)

    def end(self) -> None:
        """Close the inbox: refuse the queued items, and all that are put later."""
        self._has_ended = True
        self.is_asleep = True
        self._refuse_all()
        self._sender.close()
        self._receiver.close()

    def leave_to_parent(self) -> None:
        """Disable the inbox in a forked process: wake no thread and refuse all items."""
        self._queue.clear()
        self._has_ended = self.is_asleep = True
