"""Overview: the topics `scheduler` and `clients`: the scheduler as a whole, its counters, and its clients.

Used by the monitor. All of it is counted anyway: here it is only read. Must never: go through tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scaler.actors.insight.explanations import OF_NODES, in_the_queue
from scaler.actors.messages.monitor import Backlog
from scaler.actors.monitor.board import Board
from scaler.actors.monitor.functions import Functions
from scaler.actors.monitor.sources import Sources
from scaler.ids import ClientId, public_id
from scaler.wire.messages.monitor import (
    ENDED,
    RECEIVED,
    SENT,
    StateClient,
    StateCount,
    StateScheduler,
    StateWaiting,
)
from scaler.wire.messages.outcomes import OUTCOMES

CLIENTS_MOST = 200
"""So many clients are shown: those with the most open tasks."""

_UINT32_MOST, _UINT64_MOST = 2**32 - 1, 2**64 - 1


def scheduler_items(board: Board, sources: Sources, backlog: Backlog, functions: Functions) -> list[Any]:
    """Return the items of the topic `scheduler`."""
    about, gauges, table = board.about, board.gauges(), sources.objects
    agents = sum(key[0] == "cluster" for key in sources.directory.peers)
    state = StateScheduler(
        about.address,
        about.package_version,
        about.started_us,
        *gauges,
        len(table.objects),
        min(_UINT64_MOST, table.size_bytes),
        backlog.waiting,
        backlog.running,
        agents,
        backlog.workers,
        sum(1 for _ in _clients(sources)),
        about.queue_size,
        min(_UINT64_MOST, table.shared_bytes),
    )
    return [state, *_counts(sources), *_waiting(backlog, functions, about.address)]


def _counts(sources: Sources) -> Iterator[StateCount]:
    for status, name in OUTCOMES.items():
        yield StateCount(ENDED, name, sources.events.ended[status])
    for group, traffic in ((SENT, sources.sent), (RECEIVED, sources.received)):
        for name, amount in traffic.by_name().items():
            yield StateCount(group, name, amount)


def _waiting(backlog: Backlog, functions: Functions, address: str) -> Iterator[StateWaiting]:
    for group in backlog.groups:
        reason, sentence = in_the_queue(group.room) if group.waiting else ("", "")
        sentence = sentence.replace("ADDRESS", address)
        work_us, unmeasured = functions.work(group)
        waiting, running = group.waiting, group.running
        yield StateWaiting(group.asks, reason, sentence, waiting, running, group.places, work_us, unmeasured)
    if backlog.inputs:
        yield StateWaiting("", *OF_NODES, backlog.inputs)


def _clients(sources: Sources) -> Iterator[tuple[ClientId, Any]]:
    """Go through the clients outside of tasks, with their peers."""
    accounts = sources.directory.accounts
    for (kind, peer_id), peer in sources.directory.peers.items():
        if kind == "client" and not accounts.is_inside(peer_id):
            yield ClientId(peer_id), peer


def client_items(sources: Sources, backlog: Backlog, now: float) -> tuple[list[StateClient], int]:
    """Return the items of the topic `clients`, and how many clients there are."""
    clients = sorted(_clients(sources), key=lambda each: backlog.open[each[0]], reverse=True)
    account_of = sources.directory.accounts.of
    items = []
    for client_id, peer in clients[:CLIENTS_MOST]:
        short = public_id(client_id)
        items.append(
            StateClient(
                short,
                peer.identity.label if peer.identity is not None else "",
                short,
                int(not peer.connection),
                backlog.open[client_id],
                backlog.accounts.get(account_of(client_id), 0),
                min(_UINT32_MOST, int(1000 * max(0.0, now - peer.heard_at))),
            )
        )
    return items, len(clients)
