"""Names: the names of workers and functions, and short ids, for the monitor."""

from __future__ import annotations

from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.events import PeerChanged, PeerJoined, PeerLeft
from scaler.ids import ObjectId, public_id
from scaler.kit import ActorRef

SHORT_MOST = 20_000


class Names:
    """The names of workers, by actor, and of functions, by id."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        self._workers: dict[ActorRef, str] = {}
        self._of_session: dict[ActorRef, tuple[ActorRef, ...]] = {}
        self._short: dict[bytes, bytes] = {}

    def joined(self, joined: PeerJoined) -> None:
        """Add the names of the workers of an agent that has joined."""
        if joined.workers:
            self._of_session[joined.session] = joined.workers
            self._workers.update(zip(joined.workers, joined.identity.worker_names, strict=False))

    def changed(self, changed: PeerChanged) -> None:
        """Add the names of an agent's new workers. Closed workers keep their names: they may still run tasks."""
        self._of_session[changed.session] = self._of_session.get(changed.session, ()) + changed.workers
        self._workers.update(zip(changed.workers, changed.names, strict=True))

    def left(self, left: PeerLeft) -> None:
        """Forget the names of the workers of an agent that has left."""
        for worker in self._of_session.pop(left.session, ()):
            self._workers.pop(worker, None)

    def of_worker(self, worker: ActorRef | None) -> str:
        """Return the name of a worker; empty if the worker is unknown."""
        return "" if worker is None else self._workers.get(worker, "")

    def worker_at(self, session: ActorRef, position: int) -> ActorRef | None:
        """Return the worker at a position of an agent; None if it is unknown."""
        workers = self._of_session.get(session, ())
        return workers[position] if position < len(workers) else None

    def of_function(self, function_id: ObjectId) -> str:
        """Return the name of a function; empty if the function is not stored."""
        return self._table.function_name(function_id)

    def short(self, secret: bytes) -> bytes:
        """Return the short id of an id. Short ids are cached, because the same functions and clients recur."""
        known = self._short.get(secret)
        if known is None:
            if len(self._short) >= SHORT_MOST:
                self._short.clear()
            known = self._short[secret] = public_id(secret)
        return known
