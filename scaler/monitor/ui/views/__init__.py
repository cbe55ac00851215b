"""Views: what each page shows, made from the state as plain values for JSON. Functions without state of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.monitor.ui.feed import State
from scaler.monitor.ui.views.graphs import graphs
from scaler.monitor.ui.views.live import live
from scaler.monitor.ui.views.memory import memory
from scaler.monitor.ui.views.strip import band, strip
from scaler.monitor.ui.views.tasks import failures, function, task, tasks
from scaler.monitor.ui.views.timeline import stream
from scaler.monitor.ui.views.wish import Sent, Wish, WishError
from scaler.monitor.ui.views.workers import processors, worker

View = Callable[[State, Wish, Sent, float], dict[str, Any]]

PAGES: dict[str, View] = {
    "live": live,
    "tasks": tasks,
    "stream": stream,
    "memory": memory,
    "processors": processors,
    "graphs": graphs,
    "settings": lambda *_: {},
    "failures": failures,
    "task": task,
    "worker": worker,
    "function": function,
}


def topics(wish: Wish) -> frozenset[str]:
    """Return the topics of the stream that only some pages need."""
    if wish.page in ("processors", "worker"):
        return frozenset({"processors"})
    if wish.page == "memory":
        return frozenset({"objects"})
    if wish.page == "task":
        return frozenset({f"task/{wish.short_id.hex()}"})
    if wish.page == "graphs" and wish.short_id:
        return frozenset({f"graph/{wish.short_id.hex()}"})
    return frozenset()


def frame(state: State, wish: Wish, sent: Sent, now: float) -> dict[str, Any]:
    """Return all that a page needs at this moment.

    Args:
        state: what is known.
        wish: what the page shows.
        sent: what it has already; changed here.
        now: seconds that only grow.

    Raises:
        WishError: if there is no such page, or it has no such arguments.
    """
    view = PAGES.get(wish.page)
    if view is None:
        raise WishError("there is no such page")
    return {
        "strip": strip(state, now),
        "band": band(state, wish, sent),
        "data": view(state, wish, sent, now),
    }
