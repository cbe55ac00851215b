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

FIRST_SECONDS = 3.0
"""The longest wait for the first message of a topic that is not always subscribed to."""
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
    await _await_topics(feed, view)
    try:
        return web.Response(text=_text(feed, view, kind, query), content_type=TYPES[kind])
    except ViewRequestError as error:
        return web.Response(status=400, text=f"{error}\n")


async def _await_topics(feed: Feed, view: View) -> None:
    """Wait for a message of each topic that the view needs and that has no subscription."""
    missing = view.needed_topics - ALWAYS - feed.topics
    if not missing:
        return
    who, changed = object(), asyncio.Event()
    before = {topic: feed.state.model.heads.get(topic) for topic in missing}
    end = time.monotonic() + FIRST_SECONDS
    feed.listen(who, changed.set)
    feed.set_topics(who, missing)
    try:
        while any(feed.state.model.heads.get(topic) is head for topic, head in before.items()):
            await asyncio.wait_for(changed.wait(), end - time.monotonic())
            changed.clear()
    except asyncio.TimeoutError:
        return  # the scheduler is silent; what is known is sent
    finally:
        feed.leave(who)


def _text(feed: Feed, view: View, kind: str, query: Mapping[str, str]) -> str:
    state = view_state(feed.state, time.monotonic())
    if kind == "csv":
        return as_csv(view, state, query)
    whole = {"limit": str(EXPORTED_MOST), **query}
    return json.dumps(frame(view, state, whole, EXPORTED_MOST), separators=(",", ":")) + "\n"
