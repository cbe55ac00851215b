"""Live: the scheduler, rates, functions, clients and workers at this moment."""

from __future__ import annotations

from typing import Any

from scaler.monitor.ui.feed import State
from scaler.monitor.ui.views.parts import function_row, series
from scaler.monitor.ui.views.wish import Sent, Wish
from scaler.monitor.ui.views.workers import worker_table
from scaler.monitor.units import waits_for

FUNCTIONS_MOST = 8
CLIENTS_MOST = 20
MESSAGES_MOST = 30
EVENTS_MOST = 8


def live(state: State, wish: Wish, sent: Sent, now: float) -> dict[str, Any]:
    """Return the page."""
    model = state.model
    window = wish.number_of("window", 300, 60, 1800)
    functions = sorted(model.functions.values(), key=lambda each: (-each.waiting - each.running, -each.success))
    clients = sorted(model.clients.values(), key=lambda client: -client.open)
    shown, total = model.shown_and_total("functions")
    return {
        "series": series(state, wish, sent, ("success", "failed", "canceled", "cpu", "lag_most"), window),
        "window": window,
        "functions": [function_row(function) for function in functions[:FUNCTIONS_MOST]],
        "functions_total": max(total, shown, len(functions)),
        "clients": [
            {
                "label": client.label or client.client.hex(),
                "open": client.open,
                "waiting": client.waiting,
                "away": bool(client.is_away),
                "seen": client.seen_ms / 1000,
            }
            for client in clients[:CLIENTS_MOST]
        ],
        "clients_total": len(clients),
        "waiting": [
            {"tasks": each.waiting, "for": waits_for(each.waits_for, each.asks)}
            for each in sorted(model.waiting, key=lambda each: -each.waiting)[:8]
            if each.waiting
        ],
        "events": [
            {"at": event.time_us / 1e6, "kind": event.kind, "subject": event.subject, "reason": event.reason}
            for event in list(state.events)[: -EVENTS_MOST - 1 : -1]
        ],
        "scheduler": _scheduler(state),
        "sent": _messages(model.sent),
        "received": _messages(model.received),
        "workers": worker_table(state, wish, now),
    }


def _scheduler(state: State) -> dict[str, Any] | None:
    scheduler = state.model.scheduler
    if scheduler is None:
        return None
    return {
        "address": scheduler.address,
        "version": scheduler.package_version,
        "started": scheduler.started_us / 1e6,
        "cpu": scheduler.cpu_permille / 1000,
        "rss": scheduler.rss_bytes,
        "rss_free": scheduler.free_bytes,
        "lag": scheduler.lag_us / 1e6,
        "lag_most": scheduler.lag_most_us / 1e6,
        "objects": scheduler.objects,
        "object_bytes": scheduler.object_bytes,
        "shared_bytes": scheduler.shared_bytes,
        "agents": scheduler.agents,
        "clients": scheduler.clients,
        "ended": state.model.outcomes,
    }


def _messages(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])[:MESSAGES_MOST]
