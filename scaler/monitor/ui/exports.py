"""Exports: the rows of a view as JSON or CSV, for programs, and for users of the page who take a table along."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping

from aiohttp import web

from scaler.monitor.ui.feed import ALWAYS, Feed
from scaler.monitor.ui.views.timeline import view_state
from scaler.monitor.views.catalog import OF_DETAILS, VIEWS
from scaler.monitor.views.frames import EXPORTED_MOST, ViewRequestError, as_csv, frame
from scaler.monitor.views.view import View

FIRST_SECONDS = 4.0
"""The longest wait for the messages of a topic that is not always subscribed to."""
REPORTED, REPORT_US = frozenset({"tasks", "processors"}), 2_000_000
"""Topics that need reports of agents, and the usual interval of these reports: the first message has none yet."""
ARGUMENTS = frozenset({"filter", "sort", "owner", "state", "start", "end", "offset", "limit"})
TYPES = {"json": "application/json", "csv": "text/csv"}


async def export(feed: Feed, name: str, kind: str, query: Mapping[str, str]) -> web.Response:
    """Return the rows of a view; 404 if there is no such view, and 400 if the query is invalid."""
    view = VIEWS.get(name)
    if view is None or name in OF_DETAILS or kind not in TYPES:
        names = ", ".join(each for each in VIEWS if each not in OF_DETAILS)
        return web.Response(status=404, text=f"There is no view of this name. Views: {names}; formats: json, csv.\n")
    unknown = ", ".join(sorted(query.keys() - ARGUMENTS))
    if unknown:
        return web.Response(status=400, text=f"unknown: {unknown}; use {', '.join(sorted(ARGUMENTS))}\n")
    who = object()
    try:
        await _await_topics(feed, view, who)
        return web.Response(text=_text(feed, view, kind, query), content_type=TYPES[kind])
    except ViewRequestError as error:
        return web.Response(status=400, text=f"{error}\n")
    finally:
        feed.leave(who)


async def _await_topics(feed: Feed, view: View, who: object) -> None:
    """Subscribe to the topics that the view needs. Wait until those without a subscription have been received."""
    missing = view.needed_topics - ALWAYS - feed.topics
    heads, changed, end = feed.state.model.heads, asyncio.Event(), time.monotonic() + FIRST_SECONDS
    before = {topic: heads[topic].time_us if topic in heads else 0 for topic in missing}
    first = dict.fromkeys(missing, 0)
    feed.listen(who, changed.set)
    feed.set_topics(who, view.needed_topics - ALWAYS)
    while missing:
        try:
            await asyncio.wait_for(changed.wait(), end - time.monotonic())
        except asyncio.TimeoutError:
            return  # the scheduler is silent; what is known is sent
        changed.clear()
        heads = feed.state.model.heads
        for topic in [topic for topic in missing if topic in heads and heads[topic].time_us > before[topic]]:
            if heads[topic].more:
                continue
            first[topic] = first[topic] or heads[topic].time_us
            if topic not in REPORTED or heads[topic].time_us - first[topic] >= REPORT_US:
                missing -= {topic}


def _text(feed: Feed, view: View, kind: str, query: Mapping[str, str]) -> str:
    state = view_state(feed.state, time.monotonic())
    if kind == "csv":
        return as_csv(view, state, query)
    whole = {"limit": str(EXPORTED_MOST), **query}
    return json.dumps(frame(view, state, whole, EXPORTED_MOST, has_all=True), separators=(",", ":")) + "\n"
