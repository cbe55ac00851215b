"""Exports: the rows of a view as JSON or CSV, for programs, and for users of the page who take a table along."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping

from aiohttp import web

from scaler.monitor.ui.feed import ALWAYS, Feed
from scaler.monitor.ui.views.frames import EVERYTHING, UnknownColumnError, csv_of, rows_of, table_of
from scaler.monitor.ui.views.page_request import PageRequest
from scaler.monitor.ui.views.timeline import view_state
from scaler.monitor.views.catalog import OF_DETAILS, VIEWS
from scaler.monitor.views.rows import Wanted, page_of
from scaler.monitor.views.view import View

FIRST_SECONDS = 3.0
"""The longest wait for the first message of a topic that is not always subscribed to."""
DIGITS_MOST = 12
TYPES = {"json": "application/json", "csv": "text/csv"}
_TEXTS = frozenset({"filter", "sort", "owner", "state"})
_NUMBERS = frozenset({"limit", "offset", "start", "end"})


class ExportError(ValueError):
    """A query of an export has an invalid name or value."""


async def export(feed: Feed, name: str, kind: str, query: Mapping[str, str]) -> web.Response:
    """Return the rows of a view; 404 if there is no such view, and 400 if the query is invalid."""
    view = VIEWS.get(name)
    if view is None or name in OF_DETAILS or kind not in TYPES:
        names = ", ".join(each for each in VIEWS if each not in OF_DETAILS)
        return web.Response(status=404, text=f"There is no view of this name. Views: {names}; formats: json, csv.\n")
    try:
        wanted, offset, limit = _read(query)
        await _await_topics(feed, view)
        return web.Response(text=_text(feed, view, kind, wanted, offset, limit), content_type=TYPES[kind])
    except (ExportError, UnknownColumnError) as error:
        return web.Response(status=400, text=f"{error}\n")


def _read(query: Mapping[str, str]) -> tuple[Wanted, int, int]:
    unknown = sorted(query.keys() - _TEXTS - _NUMBERS)
    if unknown:
        raise ExportError(f"unknown: {', '.join(unknown)}; use {', '.join(sorted(_TEXTS | _NUMBERS))}")
    texts = {name: query.get(name, "") for name in _TEXTS}
    start, end, offset = (_number(query, name, 0) for name in ("start", "end", "offset"))
    wanted = Wanted(texts["filter"], texts["sort"], texts["owner"], texts["state"], start, end)
    return wanted, offset, max(1, _number(query, "limit", EVERYTHING))


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not (text.isdecimal() and text.isascii() and len(text) <= DIGITS_MOST):
        raise ExportError(f"{name} must be a number")
    return int(text)


async def _await_topics(feed: Feed, view: View) -> None:
    """Wait for the first message of the topics that the view needs, if nobody has subscribed to them."""
    missing = frozenset(view.topics) - ALWAYS
    who, changed = object(), asyncio.Event()
    before = {topic: feed.state.model.heads.get(topic) for topic in missing}
    if not missing or missing <= feed.topics:
        return
    feed.listen(who, changed.set)
    feed.set_topics(who, missing)
    end = time.monotonic() + FIRST_SECONDS
    try:
        while any(feed.state.model.heads.get(topic) is head for topic, head in before.items()):
            await asyncio.wait_for(changed.wait(), end - time.monotonic())
            changed.clear()
    except asyncio.TimeoutError:
        return  # the scheduler is silent; what is known is sent
    finally:
        feed.leave(who)


def _text(feed: Feed, view: View, kind: str, wanted: Wanted, offset: int, limit: int) -> str:
    state = view_state(feed.state, PageRequest(0, view.name), time.monotonic())
    if kind == "json":
        return json.dumps(table_of(state, view, wanted, offset, limit), separators=(",", ":")) + "\n"
    shown, _ = page_of(rows_of(state, view, wanted), offset, limit)
    return csv_of(state, view, shown)
