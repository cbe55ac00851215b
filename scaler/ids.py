"""Identifiers: 16 opaque bytes each.

Ids that a process makes are random, many at once: unique everywhere, and as cheap as a counter. Who knows the id of an
object may read it, so no id must lead to others. The id of a function is the hash of its content.
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

Account: TypeAlias = tuple[int, int]
"""Of a task, as messages name it: the number of a client, and the tag of its owner."""
NO_ACCOUNT: Account = (0, 0)
"""Of tasks that were submitted outside of tasks: the scheduler adds that of their client."""

ID_BYTES = 16
NO_ID = bytes(ID_BYTES)
PREFIX_BYTES = 8
"""The id of a task of a map, a job or a graph begins with random bytes, the same for all of them; its index follows."""
_MADE_AT_ONCE = 256


class IdSource:
    """Makes unique ids that nobody can guess, whichever others he knows. Safe to use from several threads."""

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
        """In a forked process: the ids that were made are those of the original."""
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
    """Return the short id by which monitors know a thing: it says nothing about the id, which is a secret."""
    return hashlib.blake2b(secret, digest_size=PUBLIC_ID_BYTES).digest() if any(secret) else b""


def index_of(task_id: bytes) -> int:
    """Return the index of a task in its map, job or graph, if its id was made there."""
    return int.from_bytes(task_id[PREFIX_BYTES:], "big")


_HEX_DIGITS = frozenset("0123456789abcdef")


def is_public_id(text: str) -> bool:
    """Return whether a text is a short id in hex, as screens show it."""
    return len(text) == 2 * PUBLIC_ID_BYTES and _HEX_DIGITS.issuperset(text)


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
