"""Overview: the topics `scheduler` and `clients`: the scheduler as a whole, its counters, and its clients.

Used by the monitor. All of it is counted anyway: here it is only read. Must never: go through tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scaler.actors.messages.monitor import Backlog
from scaler.actors.monitor.board import Board
from scaler.actors.monitor.sources import Sources
from scaler.ids import ClientId, public_id
from scaler.wire.messages.monitor import (
    ASKED_MS,
    ASKED_RUNNING,
    ASKED_WAITING,
    ENDED,
    REASONS,
    RECEIVED,
    SENT,
    StateClient,
    StateCount,
    StateScheduler,
)
from scaler.wire.outcomes import OUTCOMES
from scaler.wire.reasons import INPUTS, NO_ROOM, NO_WORKER, NOT_ABLE

CLIENTS_MOST = 200
"""So many clients are shown: those with the most open tasks."""

_UINT32_MOST = 2**32 - 1


def scheduler_items(board: Board, sources: Sources, backlog: Backlog) -> list[Any]:
    """Return the items of the topic `scheduler`."""
    about, gauges, table = board.about, board.gauges(), sources.objects
    agents = sum(key[0] == "cluster" for key in sources.directory.peers)
    state = StateScheduler(
        about.address,
        about.package_version,
        about.started_us,
        *gauges,
        len(table.objects),
        table.size_bytes,
        backlog.waiting,
        backlog.running,
        agents,
        backlog.workers,
        sum(1 for _ in _clients(sources)),
        about.queue_size,
    )
    return [state, *_counts(sources, backlog)]


def _counts(sources: Sources, backlog: Backlog) -> Iterator[StateCount]:
    for status, name in OUTCOMES.items():
        yield StateCount(ENDED, name, sources.events.ended[status])
    for group, traffic in ((SENT, sources.sent), (RECEIVED, sources.received)):
        for name, amount in traffic.by_name().items():
            yield StateCount(group, name, amount)
    untakeable = backlog.untakeable if backlog.workers else 0
    reasons = {why_tasks_wait(backlog): backlog.waiting - untakeable, NOT_ABLE: untakeable, INPUTS: backlog.inputs}
    for reason, amount in reasons.items():
        if amount:
            yield StateCount(REASONS, reason, amount)
    for asked, tasks in backlog.asked.items():
        yield StateCount(ASKED_WAITING, asked, tasks.waiting)
        yield StateCount(ASKED_RUNNING, asked, tasks.running)
        yield StateCount(ASKED_MS, asked, -(-tasks.expected_us // 1000))


def why_tasks_wait(backlog: Backlog) -> str:
    """Return what the tasks that no worker has are waiting for, but for those that no worker could take."""
    return NO_ROOM if backlog.workers else NO_WORKER


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
