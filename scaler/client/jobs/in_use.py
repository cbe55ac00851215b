"""State shared by all calls of one client about jobs: which jobs are in use, and the digests of stored objects.

Any thread of the user uses this state when it opens a job.
"""

from __future__ import annotations

import threading
from collections import Counter
from weakref import WeakKeyDictionary

from scaler.client.core import Core
from scaler.client.jobs.comparing.description import Descriptions
from scaler.client.object_reference import ObjectReference
from scaler.client.outcome import read_value
from scaler.ids import ObjectId


class JobsInUse:
    """The jobs that calls of one client use, and the digests of the client's stored objects."""

    def __init__(self, core: Core) -> None:
        self._serializer, self._stored = core.serializer, core.stored
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._digests: dict[ObjectId, bytes | None] = {}

    def enter(self, name: str) -> None:
        """Count a call that starts to use a job."""
        with self._lock:
            self._calls[name] += 1

    def n_calls(self, name: str) -> int:
        """Return the number of calls that use a job."""
        with self._lock:
            return self._calls[name]

    def leave(self, name: str) -> None:
        """Stop counting a call that used a job."""
        with self._lock:
            self._calls[name] -= 1
            if self._calls[name] <= 0:
                del self._calls[name]

    def digest_of(self, reference: ObjectReference) -> bytes:
        """Return the digest of an object's content, computed once. Raises `TypeError` for incomparable content."""
        with self._lock:
            if reference.object_id not in self._digests:
                self._digests[reference.object_id] = self._made(reference)
            digest = self._digests[reference.object_id]
        if digest is None:
            raise TypeError("the content of this object cannot be compared")
        return digest

    def _made(self, reference: ObjectReference) -> bytes | None:
        known = self._stored.get(reference.object_id)
        if known is None:
            return None
        value, error = read_value(self._serializer, known.frames)
        digest, trouble = (b"", "unreadable") if error is not None else Descriptions().of(value)
        return None if trouble else digest


_OF_CLIENTS: WeakKeyDictionary[Core, JobsInUse] = WeakKeyDictionary()
_LOCK = threading.Lock()


def jobs_of(core: Core) -> JobsInUse:
    """Return the `JobsInUse` of a client, created at the first call."""
    with _LOCK:
        found = _OF_CLIENTS.get(core)
        if found is None:
            found = _OF_CLIENTS[core] = JobsInUse(core)
        return found
