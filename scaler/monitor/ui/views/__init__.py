"""Views: what each page shows, made from the state as plain values for JSON.

Each module has the function of one page, which the server calls with the request of a browser. Views have no state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.graphs import graphs
from scaler.monitor.ui.views.jobs import jobs
from scaler.monitor.ui.views.live import live
from scaler.monitor.ui.views.memory import memory
from scaler.monitor.ui.views.page_request import PageMissingError, PageRequest, SentState
from scaler.monitor.ui.views.strip import band, strip
from scaler.monitor.ui.views.tasks import failures, function, task, tasks
from scaler.monitor.ui.views.timeline import stream
from scaler.monitor.ui.views.workers import processors, worker

View = Callable[[FeedState, PageRequest, SentState, float], dict[str, Any]]

PAGES: dict[str, tuple[View, str]] = {
    "live": (live, ""),
    "tasks": (tasks, ""),
    "stream": (stream, ""),
    "memory": (memory, "objects"),
    "processors": (processors, "processors"),
    "graphs": (graphs, "graph/"),
    "jobs": (jobs, ""),
    "settings": (lambda *_: {}, ""),
    "failures": (failures, ""),
    "task": (task, "task/"),
    "worker": (worker, "processors"),
    "function": (function, ""),
}
"""By page: its view, and the further topic that it needs. A topic that ends in `/` is completed by an id."""


def topics(request: PageRequest) -> frozenset[str]:
    """Return the topics that a page needs besides those that are always subscribed to."""
    _, topic = PAGES.get(request.page, (None, ""))
    if topic.endswith("/"):
        try:
            topic += request.short_id.hex()
        except PageMissingError:
            return frozenset()
    return frozenset({topic} if topic and not topic.endswith("/") else ())


def frame(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    """Return all data that a page needs now, and update `sent`, which describes the data that the page has received.

    If there is no such page or subject, `data` is None and `missing` is the reason.

    Raises:
        PageRequestError: if the arguments are invalid.
    """
    above = {"strip": strip(state, now), "band": band(state, request, sent)}
    view, _ = PAGES.get(request.page, (None, ""))
    if view is None:
        return above | {"data": None, "missing": "There is no such page."}
    try:
        return above | {"data": view(state, request, sent, now)}
    except PageMissingError as error:
        return above | {"data": None, "missing": str(error)}
