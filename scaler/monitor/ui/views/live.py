"""Live: the scheduler, rates, functions, clients and workers at this moment."""

from __future__ import annotations

from typing import Any

from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.ui.views.parts import function_row, plain, series
from scaler.monitor.ui.views.workers import worker_table
from scaler.monitor.units import waits_for

FUNCTIONS_MOST = 8
CLIENTS_MOST = 20
MESSAGES_MOST = 30
EVENTS_MOST = 8


def live(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    """Return the data of the page."""
    model = state.model
    window = request.number_of("window", 300, 60, 1800)
    functions = sorted(model.functions.values(), key=lambda each: (-each.waiting - each.running, -each.success))
    clients = sorted(model.clients.values(), key=lambda client: -client.open)
    return {
        "series": series(state, request, sent, ("success", "failed", "canceled", "cpu", "lag_most"), window),
        "functions": [function_row(function) for function in functions[:FUNCTIONS_MOST]],
        "functions_total": model.function_count,
        "clients": [plain(each, label=each.label or each.client.hex()) for each in clients[:CLIENTS_MOST]],
        "waiting": [
            {"tasks": each.waiting, "for": waits_for(each.waits_for, each.asks)}
            for each in sorted(model.waiting, key=lambda each: -each.waiting)[:8]
            if each.waiting
        ],
        "events": [plain(event) for event in list(state.events)[: -EVENTS_MOST - 1 : -1]],
        "scheduler": plain(model.scheduler, ended=model.outcomes) if model.scheduler else None,
        "sent": _messages(model.sent),
        "received": _messages(model.received),
        "workers": worker_table(state, request, now),
    }


def _messages(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])[:MESSAGES_MOST]
