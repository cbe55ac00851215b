"""Layouts: the pages that show charts and the rows of several views."""

from __future__ import annotations

from typing import Any

from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.ui.views.series import series
from scaler.monitor.ui.views.timeline import KEPT_SECONDS, view_state
from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.frames import detail, frame

FEW = {"limit": 8}
"""The rows of a table that is not the main one of its page."""
MANY = {"limit": 50}


def live(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    """Return the data of the first page: rates, functions, clients, events, and each worker."""
    seen = view_state(state, now, request.number_of("kept", KEPT_SECONDS, 0, 3600))
    window = request.number_of("window", 300, 60, 1800)
    few = {name: frame(VIEWS[name], seen, FEW) for name in ("functions", "clients", "waiting", "events")}
    return {
        "series": series(state, request, sent, ("success", "failed", "canceled", "cpu", "lag_most"), window),
        **few,
        "workers": frame(VIEWS["workers"], seen, request.arguments),
        "claimed": state.model.scheduler.workers if state.model.scheduler else 0,
        "flagged": len(state.model.stuck.reasons),
        "scheduler": detail(VIEWS["scheduler"], seen, ""),
        "messages": frame(VIEWS["messages"], seen, MANY),
    }


def memory(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    """Return the data of the page: memory over time, and the hosts and objects that take it."""
    seen = view_state(state, now)
    window = request.number_of("window", 300, 60, 604800)
    return {
        "series": series(state, request, sent, ("scheduler", "agents", "processors", "objects"), window),
        "hosts": frame(VIEWS["hosts"], seen, MANY | {"sort": "rss_free"}),
        "objects": frame(VIEWS["objects"], seen, MANY),
    }
