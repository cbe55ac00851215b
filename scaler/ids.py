"""Identifiers: 16 opaque bytes each.

Ids that a process makes itself are a random prefix of its own and a counter: unique everywhere, and forty times cheaper
than a UUID. The id of a function or of anything else that is known by its content is a hash of that content.
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
"""A peer as the socket knows it, for as long as the connection lasts."""
NO_CONNECTION = Connection(b"")
"""What a session has while its peer is away: what is said there reaches no one."""

ID_BYTES = 16
NO_ID = bytes(ID_BYTES)


class IdSource:
    """Makes ids that nobody else makes. Safe to use from several threads."""

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
    """Return what gives each attempt of a scheduler a number of its own, whichever task it is of.

    A client that was away for too long submits the same task again while an agent still ends the old run. So a number
    must be unique in the scheduler, and not only in the life of a task.

    Each scheduler begins at another number, by chance: the next one at the address takes no run of the one before for
    its own.
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
