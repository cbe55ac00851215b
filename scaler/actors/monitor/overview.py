"""Overview: the topics `scheduler`, `clients` and `objects`, made of the counts of other parts, not of single tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from operator import itemgetter
from typing import Any

from scaler.actors.dependencies.waits import INPUTS_REASON
from scaler.actors.messages.monitor import Backlog
from scaler.actors.messages.tasks import UINT64_MOST
from scaler.actors.monitor.board import Board, Gauges, Sources
from scaler.actors.monitor.functions import FunctionTotals
from scaler.actors.objects.object_table import ObjectTable, StoredObject
from scaler.actors.policy.queue_reasons import queue_reason
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import ClientId, ObjectId, public_id
from scaler.wire.messages.client import SCALES
from scaler.wire.messages.monitor import (
    ENDED,
    RECEIVED,
    SENT,
    StateClient,
    StateCount,
    StateObject,
    StateScheduler,
    StateWaiting,
)
from scaler.wire.messages.vocabulary import OUTCOMES, QUOTA

CLIENTS_MOST = 200
"""Limit of the clients that are shown. If there are more, those with the most open tasks are shown."""

OBJECTS_MOST, OBJECTS_PER_SECOND = 100, 20_000
"""The most objects that are shown (the largest), and the most per second that are searched for the largest."""

_UINT32_MOST = 2**32 - 1


def scheduler_items(
    board: Board, sources: Sources, backlog: Backlog, gauges: Gauges, tasks: tuple[int, int]
) -> list[Any]:
    """Return the counters of the topic `scheduler`. `tasks`: the numbers of waiting and of running tasks."""
    about, table = board.about, sources.objects
    agents = sum(key[0] == "cluster" for key in sources.directory.peers)
    state = StateScheduler(
        about.address,
        about.package_version,
        about.started_us,
        *gauges[:5],
        len(table.objects),
        min(UINT64_MOST, table.size_bytes),
        *tasks,
        agents,
        backlog.workers,
        sum(1 for _ in _clients(sources)),
        about.queue_size,
        min(UINT64_MOST, table.shared_bytes),
    )
    return [state, *_counts(sources)]


def _counts(sources: Sources) -> Iterator[StateCount]:
    ended = sources.events.ended
    for status, name in OUTCOMES.items():
        yield StateCount(ENDED, name, ended[status])
    for group, traffic in ((SENT, sources.sent), (RECEIVED, sources.received)):
        for name, amount in traffic.by_name().items():
            yield StateCount(group, name, amount)


def waiting_items(
    backlog: Backlog, functions: FunctionTotals, address: str, owners: Iterable[Owner]
) -> Iterator[StateWaiting]:
    """Yield the groups of open tasks of the topic `scheduler`."""
    for group in backlog.groups:
        reason, sentence = queue_reason(group.capacity) if group.waiting else ("", "")
        sentence = sentence.replace("ADDRESS", address)
        work_us, unmeasured = (min(UINT64_MOST, each) for each in functions.work(group))  # agents report durations
        waiting, running = group.waiting, group.running
        yield StateWaiting(group.asks, reason, sentence, waiting, running, group.places, work_us, unmeasured)
    if backlog.inputs:
        yield StateWaiting("", *INPUTS_REASON, backlog.inputs)
    for owner in owners:
        if owner.held:
            yield StateWaiting("", QUOTA, owner.why_full(), owner.held)


def _clients(sources: Sources) -> Iterator[tuple[ClientId, Any]]:
    accounts = sources.directory.accounts
    for (kind, peer_id), peer in sources.directory.peers.items():
        if kind == "client" and not accounts.is_inside(peer_id):
            yield ClientId(peer_id), peer


def _label(peer: Any) -> str:
    return peer.identity.label if peer.identity is not None else ""


def client_items(sources: Sources, backlog: Backlog, now: float) -> tuple[list[StateClient], int]:
    """Return the items of the topic `clients`, and the number of clients."""
    # All `scaler_scale` programs come first: each checks in this list whether the other ones are connected.
    clients = sorted(
        (
            (_label(peer).startswith(SCALES), backlog.open[client_id], client_id, peer)
            for client_id, peer in _clients(sources)
        ),
        key=itemgetter(0, 1),
        reverse=True,
    )
    account_of = sources.directory.accounts.of
    items = []
    for _, n_open, client_id, peer in clients[:CLIENTS_MOST]:
        short = public_id(client_id)
        items.append(
            StateClient(
                short,
                _label(peer),
                short,
                int(not peer.connection),
                n_open,
                backlog.accounts.get(account_of(client_id), 0),
                min(_UINT32_MOST, int(1000 * max(0.0, now - peer.last_received_at))),
                peer.owner.name,
            )
        )
    return items, len(clients)


class LargestObjects:
    """A list of the largest objects, updated less often if the scheduler has many objects."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        self._items: list[StateObject] = []
        self._next_at = 0.0

    def items(self, now: float) -> tuple[list[StateObject], int]:
        """Return the items of the topic `objects`, and the number of all objects."""
        objects = self._table.objects
        if now >= self._next_at:
            self._next_at = now + len(objects) / OBJECTS_PER_SECOND
            largest = nlargest(OBJECTS_MOST, objects.items(), key=lambda each: each[1].size_bytes)
            self._items = [self._item(*each) for each in largest]
        return self._items, len(objects)

    def _item(self, object_id: ObjectId, stored: StoredObject) -> StateObject:
        owner = next(iter(stored.owners), None)
        return StateObject(
            public_id(object_id),
            stored.name,
            b"" if owner is None else public_id(owner),
            min(UINT64_MOST, stored.size_bytes),
            len(self._table.copies.hosts.get(object_id, ())),
            min(_UINT32_MOST, self._table.users.get(object_id, 0)),
            int(bool(stored.location)),
            stored.kind_for(owner),
            stored.place,
            stored.payer.name if stored.payer is not None else "",
        )
