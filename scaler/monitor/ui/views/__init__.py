"""Pages: what each page shows, made from the state as plain values for JSON. Most pages are views as they are declared.

Pages have no state; `SentState` describes what a browser has already received.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scaler.monitor.ui.feed import ALWAYS, FeedState
from scaler.monitor.ui.views.graphs import drawing
from scaler.monitor.ui.views.layouts import live, memory
from scaler.monitor.ui.views.page_request import PageMissingError, PageRequest, SentState
from scaler.monitor.ui.views.strip import band, strip
from scaler.monitor.ui.views.timeline import KEPT_SECONDS, stream, view_state
from scaler.monitor.views.catalog import BY_SINGULAR, OF_DETAILS, VIEWS, detail_topics
from scaler.monitor.views.frames import detail
from scaler.monitor.views.frames import frame as frame_of
from scaler.monitor.views.view import View

Layout = Callable[[FeedState, PageRequest, SentState, float], dict[str, Any]]
LAYOUTS: dict[str, tuple[Layout, frozenset[str]]] = {
    "live": (live, frozenset()),
    "stream": (stream, frozenset({"tasks"})),
    "memory": (memory, frozenset({"objects"})),
    "settings": (lambda *_: {}, frozenset()),
}
"""The pages that are more than one view, each with the topics that it needs besides those always subscribed to."""
PAGES = (*LAYOUTS, *(name for name in VIEWS if name not in OF_DETAILS))


def view_of(name: str) -> View | None:
    """Return the view whose name, or the name of whose subjects in the singular, is that of a page; None if unknown."""
    return VIEWS.get(name) or BY_SINGULAR.get(name)


def topics(request: PageRequest) -> frozenset[str]:
    """Return the topics that a page needs besides those that are always subscribed to."""
    if request.page in LAYOUTS:
        return LAYOUTS[request.page][1]
    view, identity = view_of(request.page), request.text("id")
    if view is None:
        return frozenset()
    if not identity:
        return view.needed_topics - ALWAYS
    try:
        return detail_topics(view, request.short_id if view.detail_topic.endswith("/") else identity) - ALWAYS
    except PageMissingError:
        return frozenset()


def frame(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    """Return all data that a page needs now, and update `sent`, which describes the data that the page has received.

    If there is no such page or subject, `data` is None and `missing` is the reason.

    Raises:
        ViewRequestError: if the arguments are invalid.
    """
    above = {"strip": strip(state, now), "band": band(state, request, sent)}
    try:
        return above | {"data": _data(state, request, sent, now)}
    except PageMissingError as error:
        return above | {"data": None, "missing": str(error)}


def _data(state: FeedState, request: PageRequest, sent: SentState, now: float) -> dict[str, Any]:
    if request.page in LAYOUTS:
        return LAYOUTS[request.page][0](state, request, sent, now)
    view = view_of(request.page)
    if view is None:
        raise PageMissingError("There is no such page.")
    seen = view_state(state, now, request.number_of("kept", KEPT_SECONDS, 0, 3600))
    identity = request.text("id")
    if not identity:
        return frame_of(view, seen, _with_start(state, request, view))
    if view.detail_topic.endswith("/"):
        _ = request.short_id  # raises for a text that cannot be an id
    data = detail(view, seen, identity)
    return data | {"drawing": drawing(state, request.short_id, sent)} if view.name == "graphs" else data


def _with_start(state: FeedState, request: PageRequest, view: View) -> Mapping[str, Any]:
    """Return the arguments of a page; tasks are those of the last `stored` seconds, unless a range was chosen."""
    stored = request.number_of("stored", 0, 0, 604800)
    if view.name != "tasks" or not stored or request.arguments.get("start"):
        return request.arguments
    return {**request.arguments, "start": max(0, state.model.received_us // 1_000_000 - stored)}
