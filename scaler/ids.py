"""Identifiers: 16 opaque bytes each.

Ids that a process makes are its random prefix and a counter: unique everywhere, and forty times cheaper than a UUID.
The id of a function is the hash of its content.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, NewType

TaskId = NewType("TaskId", bytes)
ObjectId = NewType("ObjectId", bytes)
"""An object that is stored: an argument, a function, a large result."""
GraphId = NewType("GraphId", bytes)
ClientId = NewType("ClientId", bytes)
AgentId = NewType("AgentId", bytes)
"""A cluster process."""
SchedulerId = NewType("SchedulerId", bytes)
"""One run of a scheduler; the next one at the same address has another id."""
Connection = NewType("Connection", bytes)
"""The socket's name of a peer, for the life of one connection."""
NO_CONNECTION = Connection(b"")
"""The connection of a session whose peer is away: nothing that is sent there arrives."""

ID_BYTES = 16
NO_ID = bytes(ID_BYTES)


class IdSource:
    """Makes unique ids. Safe to use from several threads."""

    def __init__(self) -> None:
        self._prefix = os.urandom(8)
        self._next = count().__next__

    def __call__(self) -> bytes:
        return self._prefix + self._next().to_bytes(8, "big")


def random_id() -> bytes:
    """Return an id that cannot be guessed."""
    return os.urandom(ID_BYTES)


ATTEMPTS = 1 << 32
"""Attempts travel as 32 bits, and begin at 0 again: hours pass before a number comes twice."""


def attempt_numbers(scheduler_id: SchedulerId) -> Callable[[], int]:
    """Return a source of attempt numbers that are unique in one scheduler.

    A client that was away for too long submits the same task again while an agent still ends the old run. So numbers
    must be unique in the scheduler, not only within a task.

    Each scheduler starts at a random number, so the next scheduler at the address never takes a run of the previous one
    for its own.
    """
    return map((ATTEMPTS - 1).__and__, count(int.from_bytes(scheduler_id[:4], "big"))).__next__


def is_later(attempt: int, other: int) -> bool:
    """Return whether an attempt was numbered after another one of the same scheduler."""
    return 0 < (attempt - other) % ATTEMPTS < ATTEMPTS // 2


def content_id(parts: Iterable[Any]) -> ObjectId:
    """Return the id of the given content (BLAKE2b, 128 bits); each part is anything with a buffer."""
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for part in parts:
        view = memoryview(part)
        digest.update(view.nbytes.to_bytes(8, "big"))
        digest.update(view)
    return ObjectId(digest.digest())


def split_ids(packed: bytes) -> list[bytes]:
    """Return the ids in `packed`, which holds them one after the other."""
    return [packed[i : i + ID_BYTES] for i in range(0, len(packed), ID_BYTES)]
