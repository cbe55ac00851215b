"""Identifiers: 16 opaque bytes each.

A process creates many random ids at once, which are unique everywhere and as cheap as a counter. A process that knows
the id of an object may read it, so ids must not be guessable from other ids. The id of a function is the hash of its
content.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, NewType, TypeAlias
from weakref import WeakSet

TaskId = NewType("TaskId", bytes)
ObjectId = NewType("ObjectId", bytes)
"""The id of a stored object: an argument, a function, a large result."""
GraphId = NewType("GraphId", bytes)
ClientId = NewType("ClientId", bytes)
AgentId = NewType("AgentId", bytes)
SchedulerId = NewType("SchedulerId", bytes)
"""The id of one run of a scheduler; the next scheduler at the same address has another id."""
Connection = NewType("Connection", bytes)
"""The name that a socket gives to a peer; the name is valid until the connection ends."""
NO_CONNECTION = Connection(b"")
"""The connection of a session whose peer is disconnected. Messages to this connection are dropped."""

Account: TypeAlias = tuple[int, int]
"""The account of a task, as messages contain it: the number of a client, and the tag of the client's owner."""
NO_ACCOUNT: Account = (0, 0)
"""The account of tasks that were submitted outside of tasks. The scheduler replaces it with the client's account."""

ID_BYTES = 16
NO_ID = bytes(ID_BYTES)
PREFIX_BYTES = 8
"""The length of the random prefix of all task ids of a map, a job or a graph; the task's index follows the prefix."""
_MADE_AT_ONCE = 256


class IdSource:
    """Creates unique ids that cannot be guessed, even from other ids. Thread-safe."""

    def __init__(self) -> None:
        self._made: deque[bytes] = deque()
        _sources.add(self)

    def __call__(self) -> bytes:
        try:
            return self._made.popleft()
        except IndexError:
            self._made.extend(split_ids(os.urandom(ID_BYTES * _MADE_AT_ONCE)))
            return random_id()

    def forked(self) -> None:
        """Drop the ids that were created in advance. Called in a forked process, because the parent uses these ids."""
        self._made.clear()


_sources: WeakSet[IdSource] = WeakSet()


def _forked() -> None:
    for source in _sources:
        source.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def random_id() -> bytes:
    """Return an id that cannot be guessed."""
    return os.urandom(ID_BYTES)


PUBLIC_ID_BYTES = 8


def public_id(secret: bytes) -> bytes:
    """Return the short id that monitors show in place of a secret id. The short id does not reveal the secret id."""
    return hashlib.blake2b(secret, digest_size=PUBLIC_ID_BYTES).digest() if any(secret) else b""


def index_of(task_id: bytes) -> int:
    """Return the index of a task in its map, job or graph. For the id of a single task the number has no meaning."""
    return int.from_bytes(task_id[PREFIX_BYTES:], "big")


_HEX_DIGITS = frozenset("0123456789abcdef")


def is_public_id(text: str) -> bool:
    """Return whether a text is a short id in hex, as screens show it."""
    return len(text) == 2 * PUBLIC_ID_BYTES and _HEX_DIGITS.issuperset(text)


ATTEMPTS = 1 << 32
"""The number of different attempt numbers, which have 32 bits. Hours pass before a number is used twice."""


def attempt_numbers(scheduler_id: SchedulerId) -> Callable[[], int]:
    """Return a source of attempt numbers that are unique in one scheduler, and not only within a task.

    A client that was disconnected for too long submits a task again, perhaps while an agent still ends the old run:
    then two runs have the same task id. The numbers start at random, so that no scheduler mistakes a run of its
    predecessor for its own.
    """
    return map((ATTEMPTS - 1).__and__, count(int.from_bytes(scheduler_id[:4], "big"))).__next__


def is_later(attempt: int, other: int) -> bool:
    """Return whether `attempt` was numbered after `other` by the same scheduler."""
    return 0 < (attempt - other) % ATTEMPTS < ATTEMPTS // 2


def content_id(parts: Iterable[Any]) -> ObjectId:
    """Return the id of the content of `parts`, which are buffers: the BLAKE2b hash of 128 bits."""
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for part in parts:
        view = memoryview(part)
        digest.update(view.nbytes.to_bytes(8, "big"))
        digest.update(view)
    return ObjectId(digest.digest())


def split_ids(packed: bytes) -> list[bytes]:
    """Return the ids that are concatenated in `packed`."""
    return [packed[i : i + ID_BYTES] for i in range(0, len(packed), ID_BYTES)]
