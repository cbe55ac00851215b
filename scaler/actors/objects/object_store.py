"""ObjectStore: values that are too large for a message or used more than once: functions, large arguments and results.

Receives messages from client sessions (store, delete, fetch, the client left), graphs (store, use, release), tasks
(use, release) and agent sessions (fetch, copies at their agent, the agent left). Sends requested objects to the outbox,
and requests to delete copies to agent sessions.

An object is kept while a client holds it or a task uses it. After that, its bytes and its copies on hosts are deleted.
Hosts keep copies of functions for the retention time, because a function that is sent again has the same id.
(docs/howto/objects.md is the user's view.)

For a large result, or a large object of a client on this host, the store has only the location and the keeper: the
session of the client or agent with the bytes. Readers that cannot open the location receive the bytes, which the store
requests from the keeper: from an agent in parts, as fast as readers read. If the agent is lost, a host with a copy
becomes the keeper. Without a copy the object is lost, and its owner, the graphs that need it, and later readers are
notified.

Clients may read the objects whose ids they know. Only the client that stored an object, or submitted the task whose
result it is, may change it. If another client stores a value under an id in use, that value is for that client alone.
Functions are shared, because the session checks that the id is the hash of the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from scaler.actors.messages.objects import (
    CopyKept,
    CountArguments,
    DeleteCopy,
    DeleteObject,
    FetchObject,
    HostHasAll,
    HostLeft,
    InputLost,
    ObjectCame,
    ObjectLost,
    OwnerLeft,
    OwnerResubmits,
    OwnerResubmitted,
    PartCame,
    ReleaseObjects,
    RequestPart,
    RetentionEnded,
    StoreObject,
    SupplyObject,
    UseObjects,
    ValueRefused,
)
from scaler.actors.messages.peers import ReportStatistics
from scaler.actors.objects.copies import discard
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.objects.object_table import ObjectTable, StoredObject
from scaler.actors.slices import NextSlice, Slices
from scaler.actors.vocabulary.events import Events, ObjectFilled, ObjectGone, ObjectStored
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import ClientId, ObjectId, split_ids
from scaler.kit import Actor, ActorRef, charged_to, handles
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import size_at
from scaler.wire.messages.common import FOUND, LOST, NOT_FOUND, ObjectResponse
from scaler.wire.session.lost_frames import LostFrames
from scaler.wire.session.streamed import Source, StreamedFrames, ValueStream, frames_in, stream_of

LATE_SECONDS = 2.5
"""How long a new scheduler waits for the owners of objects to return before it reports objects as not found."""

LOST_MOST = 1024
"""Limit of the lost results whose reason is remembered, for requests that arrive after the loss."""


class ObjectStore(Actor):
    """Stores objects, serves requests for them, and notifies their users of losses.

    Args:
        retention_seconds: how long hosts keep copies of unneeded functions.
    """

    def __init__(self, table: ObjectTable, outbox: Outbox, events: Events, retention_seconds: float) -> None:
        self._table = table
        self._objects = table.objects
        self._copies = table.copies
        self._retained = table.retained
        self._outbox = outbox
        self._events = events
        self._retention_seconds = retention_seconds
        self._is_waiting = False
        self._slices = Slices(self)

    def on_start(self) -> None:
        self._slices.add(self._disown_one, self._leaving_owners())
        if None in self._table.pending.owners:
            self.schedule(LATE_SECONDS, OwnerResubmitted(None))
        for host in [host for host in self._table.located if host.is_stopped()]:
            self._host_left(HostLeft(host))
        self._wait_for_first()

    @handles(StoreObject)
    @charged_to("source")
    def _store(self, store: StoreObject) -> None:
        while store.owner in self._table.leaving:  # it has returned already
            self._slices.go_on()
        store = _within_quota(store)
        stored = self._objects.get(store.object_id)
        while stored is not None and _takes_the_place(store, stored):
            self._forget(store.object_id, stored)
            stored = self._objects.get(store.object_id)
        if stored is None:
            stored = self._add(store)
        elif store.supplier != stored.supplier:
            pass  # an object of another client does not change
        elif (stored.lost or stored.is_with_agent) and store.frames:
            self._replace_result(stored, store)
        elif stored.location or type(stored.frames) is LostFrames:
            self._refill(stored, store)
        owner = store.owner
        if owner is None:
            return  # it is dropped with the last task that uses it
        self._table.owned.setdefault(owner, set()).add(store.object_id)
        if self._belongs_to_another(stored, store):
            stored.other_clients[owner] = store
        else:
            self._own(owner, stored, store)

    def _own(self, owner: ClientId, stored: StoredObject, store: StoreObject) -> None:
        stored.owners.add(owner)
        if stored.payer is None and store.payer is not None:  # an agent reported it before its owner did
            self._table.count(store.object_id, stored, -1)
            stored.payer = store.payer
            self._table.count(store.object_id, stored, 1)
        if store.held:
            stored.holders.add(owner)
        if store.source is not None and not stored.is_function and stored.source is not store.source:
            stored.owner_session = store.source
        if stored.lost:
            self._report_lost(store.object_id, stored)  # the loss was reported before the result

    def _replace_result(self, stored: StoredObject, store: StoreObject) -> None:
        """Replace the value of a result that was computed again. An agent keeps only the newest value of an id."""
        if store.frames is stored.lease:
            return
        self._table.put(store.object_id, stored, store.frames)
        if stored.source is not None:  # the agent that made the value needs no copy, and would have to send it itself
            stored.waiting = {peer: fetch for peer, fetch in stored.waiting.items() if fetch.host is not stored.source}
        if stored.frames:
            self._answer_waiting(store.object_id, stored, stored.frames)
        elif stored.waiting:
            self._ask_for(store.object_id, stored)

    def _add(self, store: StoreObject) -> StoredObject:
        name = store.name if store.function_id is None else self._table.function_name(store.function_id)
        stored = self._objects[store.object_id] = StoredObject(name, store.frames, store.is_function)
        stored.is_result = store.function_id is not None
        stored.supplier, stored.payer = store.supplier, store.payer
        stored.put(store.frames, store.location, store.source)
        self._table.count(store.object_id, stored, 1)
        if store.is_function:
            self._table.functions[store.object_id] = stored
        self._table.recently_lost.pop(store.object_id, None)
        self._retained.remove(store.object_id)  # the copies are needed again
        if store.owner is None:  # a result: older copies may be of another value
            self._delete_copies(store.object_id)
        if self._events.of_objects is not None:
            told = ObjectStored(store.object_id, store.owner, name, stored.size_bytes)
            self._events.of_objects.send(told)
        for fetch in self._table.pending.take(store.object_id):
            self._fetch(fetch)
        return stored

    def _belongs_to_another(self, stored: StoredObject, store: StoreObject) -> bool:
        """Return whether an id belongs to another client. Only functions are shared: their ids are checked."""
        is_shared = stored.is_function and store.is_function
        return not is_shared and store.supplier != stored.supplier and store.owner not in stored.owners

    def _refill(self, stored: StoredObject, store: StoreObject) -> None:
        """Store bytes that were requested, or that a client has resent after a lost connection."""
        self._table.put(store.object_id, stored, store.frames, store.location, store.source)
        if store.location:
            if stored.waiting:
                self._ask_for(store.object_id, stored)
            return
        if self._events.of_objects is not None:
            self._events.of_objects.send(ObjectFilled(store.object_id, stored.size_bytes))
        self._answer_waiting(store.object_id, stored, stored.frames)

    # What agents keep

    @handles(ObjectCame)
    @charged_to("host")
    def _object_arrived(self, came: ObjectCame) -> None:
        """Forward the bytes from an agent. If the agent lacks the bytes, request them from a host with a copy."""
        object_id, stored = came.object_id, self._objects.get(came.object_id)
        if stored is None or stored.source is not came.host:
            return
        if not came.found:
            self._lose(object_id, stored, came.host, came.reason)
            return
        if came.stays and came.frames:
            self._table.put(object_id, stored, came.frames)
        self._answer_waiting(object_id, stored, came.frames)

    @handles(PartCame)
    @charged_to("host")
    def _part_arrived(self, came: PartCame) -> None:
        part = came.part
        object_id, stored = part.object_id, self._objects.get(part.object_id)
        if stored is None or stored.source is None:
            return
        source, came_from = (stored.source, stored.location), (came.host, part.location)
        asked = source if stored.stream is None else stored.stream.source
        if came_from not in (asked, source) or (stored.stream is None and part.offset):
            return  # a part of a former value
        data = memoryview(part.frames[0] if len(part.frames) == 1 else b"".join(part.frames)).cast("B")
        stream = stored.stream or stream_of(part.sizes, source, partial(_ask_for_part, object_id))
        if part.reason and stream is not None and came_from != source:
            stream.ask_again(source)  # that host has lost its copy
            return
        if part.reason or stream is None or not 0 < len(data) == stream.size_at(part.offset):
            self._lose(object_id, stored, came.host, part.reason or "its host has sent an invalid part of it")
            return
        if len(data) == stream.n_bytes:
            self._answer_waiting(object_id, stored, frames_in(data, stream.sizes))
            return
        if stored.stream is None:
            stored.stream = stream
            self._answer_waiting(object_id, stored, ())
        stream.add(part.offset, data)

    def _reset_host(self, object_id: ObjectId, host: ActorRef) -> None:
        stored = self._objects.get(object_id)
        if stored is not None and stored.reset_host(host):
            self._answer_waiting(object_id, stored, ())

    @handles(HostHasAll)
    def _host_has_all(self, has: HostHasAll) -> None:
        """Have a host with the whole value send the rest of a stream. If no host needs more, serve waiting readers."""
        stored = self._objects.get(has.object_id)
        if stored is None or stored.stream is None or has.host.is_stopped():
            return
        self._copies.add(has.object_id, has.host)  # it may have been asked for its copy before it had one
        stored.stream.ask_again((has.host, b""))
        if not stored.stream.is_under_way():
            self._answer_waiting(has.object_id, stored, ())

    def _lose_if_source(self, object_id: ObjectId, left: HostLeft) -> None:
        stored = self._objects.get(object_id)
        if stored is not None and stored.source is left.host:
            self._lose(object_id, stored, left.host, left.reason)

    def _ask_source(self, object_id: ObjectId, left: HostLeft) -> None:
        """Repeat the requests for an object to an agent that has started over."""
        stored = self._objects.get(object_id)
        if stored is None or stored.source is not left.host:
            return
        if stored.waiting:
            self._ask_for(object_id, stored)
        if stored.stream is not None:
            stored.stream.ask_again((left.host, stored.location))

    def _lose(self, object_id: ObjectId, stored: StoredObject, host: ActorRef, reason: str) -> None:
        """Choose another host for an object that its keeper has lost. Without a copy, report the loss."""
        other = self._copies.remove(object_id, host)
        self._table.put(object_id, stored, (), source=other)
        if other is not None:
            if stored.waiting:
                self._ask_for(object_id, stored)
            return
        stored.lost = reason
        self._answer_waiting(object_id, stored, ())
        self._report_lost(object_id, stored)

    def _report_lost(self, object_id: ObjectId, stored: StoredObject) -> None:
        """Report a lost object to its owner, and to the sessions whose tasks need it."""
        if stored.owner_session is not None and stored.owners:
            stored.owner_session.send(ObjectLost(object_id, stored.lost))
        for session in self._table.sessions.get(object_id, ()):
            session.send(InputLost(object_id, stored.lost))
        for owner in list(stored.owners):
            discard(self._table.owned, owner, object_id)
        stored.owners.clear()
        stored.holders.clear()
        if object_id not in self._table.users:
            self._forget(object_id, stored)
            recently_lost = self._table.recently_lost
            recently_lost[object_id] = stored.lost
            if len(recently_lost) > LOST_MOST:
                del recently_lost[next(iter(recently_lost))]

    def _answer_waiting(self, object_id: ObjectId, stored: StoredObject, frames: Frames) -> None:
        """Answer pending requests with `frames`. If `frames` is empty, stream the bytes, or report their loss."""
        waiting, stored.waiting = stored.waiting, {}
        for peer, fetch in waiting.items():
            if stored.stream is None or frames:
                self._respond(peer, object_id, frames, b"")
            elif fetch.whole:
                stored.waiting[peer] = fetch
            else:
                self._stream_to(fetch, stored.stream)

    def _stream_to(self, fetch: FetchObject, stream: ValueStream) -> None:
        if fetch.host is stream.source[0]:  # it has made the value since, and requests for parts wait behind a stream
            return
        peer, object_id, on_all = fetch.peer, fetch.object_id, None
        if fetch.host is not None:
            on_all = partial(self.actor_ref.send, HostHasAll(object_id, fetch.host))
        streamed = StreamedFrames(stream, fetch, partial(self._outbox.serve, peer), fetch.host, on_all)
        self._outbox.put_streamed(peer, ObjectResponse(object_id, FOUND, streamed))

    def _ask_for(self, object_id: ObjectId, stored: StoredObject) -> None:
        if stored.source is None:
            return
        kinds = {fetch.whole for fetch in stored.waiting.values()}
        if not stored.is_with_agent or True in kinds:
            stored.source.send(SupplyObject(object_id))
        if stored.is_with_agent and False in kinds:
            _ask_for_part(object_id, (stored.source, stored.location), 0)

    @handles(DeleteObject)
    def _delete(self, delete: DeleteObject) -> None:
        if delete.object_id in self._table.owned.get(delete.owner, ()):
            discard(self._table.owned, delete.owner, delete.object_id)
            self._disown(delete.object_id, delete.owner)

    @handles(OwnerLeft)
    def _owner_left(self, left: OwnerLeft) -> None:
        self._owner_resubmitted(OwnerResubmitted(left.owner))
        if left.owner in self._table.owned:
            self._table.leaving[left.owner] = None
            self._slices.add(self._disown_one, self._leaving_owners())

    def _leaving_owners(self) -> Iterator[ClientId]:
        """Yield each owner that has left, once for each of its objects."""
        leaving, owned = self._table.leaving, self._table.owned
        while leaving:
            owner = next(iter(leaving))
            while owner in owned:
                yield owner
            leaving.pop(owner, None)

    def _disown_one(self, owner: ClientId) -> None:
        owned = self._table.owned[owner]
        object_id = owned.pop()
        if not owned:
            del self._table.owned[owner]
        self._disown(object_id, owner)

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self._slices.go_on()

    def _disown(self, object_id: ObjectId, owner: ClientId) -> None:
        stored = self._objects[object_id]
        if stored.other_clients.pop(owner, None) is not None:
            return
        stored.owners.discard(owner)
        stored.holders.discard(owner)
        if not stored.owners and object_id not in self._table.users:
            self._forget(object_id, stored)

    @handles(UseObjects)
    def _use(self, use: UseObjects) -> None:
        users = self._table.users
        for packed in split_ids(use.object_ids):
            object_id = ObjectId(packed)
            users[object_id] = users.get(object_id, 0) + 1
            if use.session is not None:
                self._used_by_session(object_id, use.session)

    def _used_by_session(self, object_id: ObjectId, session: ActorRef) -> None:
        """Record a session that is notified if an object is lost. If it is lost already, notify the session now."""
        self._table.sessions.setdefault(object_id, {})[session] = None
        stored = self._objects.get(object_id)
        if stored is None or stored.lost:
            session.send(InputLost(object_id, "it is no longer stored" if stored is None else stored.lost))

    @handles(CountArguments)
    def _count_arguments(self, count: CountArguments) -> None:
        self._table.size_bytes += count.size_bytes
        count.payer.count_bytes(count.size_bytes)

    @handles(ReleaseObjects)
    def _release(self, release: ReleaseObjects) -> None:
        users = self._table.users
        for packed in split_ids(release.object_ids):
            object_id = ObjectId(packed)
            if release.session is not None and object_id in self._table.sessions:
                sessions = self._table.sessions[object_id]
                sessions.pop(release.session, None)
                if not sessions:
                    del self._table.sessions[object_id]
            left = users.get(object_id, 0) - 1
            if left > 0:
                users[object_id] = left
                continue
            users.pop(object_id, None)
            stored = self._objects.get(object_id)
            if stored is not None and not stored.holders:
                self._forget(object_id, stored)

    @handles(FetchObject)
    @charged_to("peer.session")
    def _fetch(self, fetch: FetchObject) -> None:
        stored = self._objects.get(fetch.object_id)
        own = (
            stored.other_clients.get(ClientId(fetch.peer.key[1]))
            if stored is not None and stored.other_clients
            else None
        )
        if own is not None:
            self._respond(fetch.peer, fetch.object_id, own.frames, own.location)
        elif stored is None:
            if self._table.pending.has_to_wait(fetch):
                return
            reason = self._table.recently_lost.get(fetch.object_id, "")
            found = LOST if reason else NOT_FOUND
            self._outbox.put(fetch.peer, ObjectResponse(fetch.object_id, found, (), reason=reason))
        elif fetch.reader is not None and stored.payer not in (None, fetch.reader):
            reason = f"it does not belong to {fetch.reader}"
            self._outbox.put(fetch.peer, ObjectResponse(fetch.object_id, NOT_FOUND, (), reason=reason))
        else:
            if fetch.host is not None and not stored.lost:
                self._copies.add(fetch.object_id, fetch.host)
            if (stored.location and fetch.by_value) or stored.is_with_host:
                self._wait_for(fetch, stored)
            else:
                self._respond(fetch.peer, fetch.object_id, stored.frames, stored.location)

    def _wait_for(self, fetch: FetchObject, stored: StoredObject) -> None:
        if stored.stream is not None and not fetch.whole:
            self._join(fetch, stored, stored.stream)
            return
        stored.waiting[fetch.peer] = fetch
        if sum(each.whole == fetch.whole for each in stored.waiting.values()) == 1:  # else it is requested already
            self._ask_for(fetch.object_id, stored)

    def _join(self, fetch: FetchObject, stored: StoredObject, stream: ValueStream) -> None:
        """Add a reader to a stream. A host waits instead if others have read parts: one of them will send the value."""
        before = [each for each in stream.readers if each.reader.peer is fetch.peer]
        if before:  # it has reconnected and starts again
            stream.leave(before)
        if fetch.host is not None and stream.is_under_way():
            stored.waiting[fetch.peer] = fetch
        else:
            self._stream_to(fetch, stream)

    @handles(OwnerResubmits)
    def _owner_says_again(self, news: OwnerResubmits) -> None:
        """Wait for the objects that a returned client resubmits. Tasks that need these objects may arrive first."""
        self._table.pending.owners.add(news.owner)

    @handles(OwnerResubmitted)
    def _owner_resubmitted(self, news: OwnerResubmitted) -> None:
        for fetch in self._table.pending.owner_resubmitted(news.owner):
            self._fetch(fetch)

    def _respond(self, peer: Peer, object_id: ObjectId, frames: Frames, location: bytes) -> None:
        stored = self._objects.get(object_id)
        if type(frames) is LostFrames:
            response = ObjectResponse(object_id, NOT_FOUND, (), reason=frames.reason)
        elif type(frames) is LocatedFrames:  # its id is that of another client's object
            response = ObjectResponse(object_id, FOUND, (), frames.location)
        elif stored is not None and stored.lost and frames == ():
            response = ObjectResponse(object_id, LOST, (), reason=stored.lost)
        else:
            response = ObjectResponse(object_id, FOUND, frames, location)
        self._outbox.put(peer, response)

    def _forget(self, object_id: ObjectId, stored: StoredObject) -> None:
        del self._objects[object_id]
        self._table.count(object_id, stored, -1)
        if stored.is_function:
            self._table.remove_function(object_id)
        if self._events.of_objects is not None:
            self._events.of_objects.send(ObjectGone(object_id))
        for owner in stored.owners:
            discard(self._table.owned, owner, object_id)
        stored.end_stream()
        for peer in stored.waiting:
            self._outbox.put(peer, ObjectResponse(object_id, NOT_FOUND, ()))
        if stored.is_function and self._retention_seconds and object_id in self._copies.hosts:
            self._retain(object_id, size_of(stored.frames))
        else:
            self._delete_copies(object_id)
        for owner, store in stored.other_clients.items():
            discard(self._table.owned, owner, object_id)
            if owner not in self._table.leaving:
                self._store(store)

    # Copies

    @handles(CopyKept)
    @charged_to("host")
    def _copy_kept(self, kept: CopyKept) -> None:
        stored = self._objects.get(kept.object_id)
        is_known = (stored is not None and not stored.lost) or kept.object_id in self._retained
        if is_known or (kept.is_early and self._retention_seconds):
            self._copies.add(kept.object_id, kept.host)
            if not is_known:
                self._retain(kept.object_id, 0)
        else:
            kept.host.send(DeleteCopy(kept.object_id))

    @handles(HostLeft)
    def _host_left(self, left: HostLeft) -> None:
        self._table.pending.leave(left.host)
        step = self._lose_if_source if left.reason else self._ask_source
        self._slices.add(partial(step, left=left), list(self._table.located.get(left.host, ())))
        for object_id in list(self._copies.objects.get(left.host, ())):
            self._reset_host(object_id, left.host)
        if left.reason:
            for object_id in self._copies.remove_host(left.host):
                self._retained.remove(object_id)

    def _retain(self, object_id: ObjectId, size_bytes: int) -> None:
        self._retained.add(object_id, self.now() + self._retention_seconds, size_bytes)
        for surplus in self._retained.take_surplus():
            self._delete_copies(surplus)
        self._wait_for_first()

    @handles(RetentionEnded)
    def _retention_ended(self, _ended: RetentionEnded) -> None:
        self._is_waiting = False
        for object_id in self._retained.take_expired(self.now()):
            self._delete_copies(object_id)
        self._wait_for_first()

    def _wait_for_first(self) -> None:
        first = self._retained.first_end()
        if first is not None and not self._is_waiting:
            self._is_waiting = True
            self.schedule(max(0.0, first - self.now()), RetentionEnded())

    def check(self) -> None:
        self._table.check()

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add("object store", "", self._table.statistics())

    def _delete_copies(self, object_id: ObjectId) -> None:
        self._retained.remove(object_id)  # a lost value, of which an agent that has returned has a copy
        for host in self._copies.remove_object(object_id):
            host.send(DeleteCopy(object_id))


def _ask_for_part(object_id: ObjectId, source: Source, offset: int) -> None:
    host, location = source
    host.send(RequestPart(object_id, location, offset))


def _takes_the_place(store: StoreObject, stored: StoredObject) -> bool:
    """Return whether a new value replaces the stored value. Functions replace other values: their ids are checked.

    A result replaces a value that another client has stored with the id of the task. That client has stored it after
    the task was submitted, because a task is refused if its id is in use.
    """
    if stored.is_function or store.is_function:
        return store.is_function > stored.is_function
    return store.function_id is not None and not stored.is_result and store.supplier != stored.supplier


def _within_quota(store: StoreObject) -> StoreObject:
    """Return `store`, or `store` without the object's bytes if they would exceed the quota of the owner."""
    payer = store.payer
    if payer is None or store.function_id is not None or not payer.has_quota or type(store.frames) is LostFrames:
        return store
    size = size_at(store.location) if store.location else size_of(store.frames)
    if payer.has_room_for(size):
        return store
    reason = (
        f"its {size:,} bytes are over the quota of its owner: the values of {payer} take {payer.n_bytes:,} bytes, "
        f"and may take {payer.terms.n_bytes:,}; delete objects or drop futures whose results you no longer need"
    )
    if store.source is not None:
        store.source.send(ValueRefused(reason))
    return replace(store, frames=LostFrames(size, reason), location=b"")
