"""Layouts: the pages that show charts and the rows of several views."""

from __future__ import annotations

from typing import Any

from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.frames import detail_of, table_of
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.ui.views.series import series
from scaler.monitor.ui.views.timeline import view_state
from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.rows import FLAG, Wanted

ROWS_MOST = 8
"""The number of rows of a table that is not the main one of its page."""
OBJECTS_MOST = 50
HOSTS_MOST = 100


def live(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    """Return the data of the first page: rates, functions, clients, events, and each worker."""
    seen = view_state(state, request, now)
    wanted = Wanted(request.text("filter"), request.text("sort") or FLAG)
    window = request.number_of("window", 300, 60, 1800)
    few = {
        name: table_of(seen, VIEWS[name], Wanted(), 0, ROWS_MOST)
        for name in ("functions", "clients", "waiting", "events")
    }
    return {
        "series": series(state, request, sent, ("success", "failed", "canceled", "cpu", "lag_most"), window),
        **few,
        "workers": table_of(seen, VIEWS["workers"], wanted, request.offset, request.limit),
        "claimed": state.model.scheduler.workers if state.model.scheduler else 0,
        "flagged": len(state.model.stuck.reasons),
        "scheduler": detail_of(seen, VIEWS["scheduler"], ""),
        "messages": table_of(seen, VIEWS["messages"], Wanted(), 0, 30),
    }


def memory(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    """Return the data of the page: memory over time, and the hosts and objects that take it."""
    seen = view_state(state, request, now)
    window = request.number_of("window", 300, 60, 604800)
    return {
        "series": series(state, request, sent, ("scheduler", "agents", "processors", "objects"), window),
        "hosts": table_of(seen, VIEWS["hosts"], Wanted(sort="rss_free"), 0, HOSTS_MOST),
        "objects": table_of(seen, VIEWS["objects"], Wanted(), 0, OBJECTS_MOST),
    }
