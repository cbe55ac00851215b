"""Strip: the top of each page: the verdict on the scheduler, the most important figures, and the history as a band."""

from __future__ import annotations

import time
from typing import Any

from scaler.monitor import units
from scaler.monitor.model.verdict import verdict
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.wire.messages.verdicts import IDLE, NO_NEWS, NO_WORKERS, NOT_ABLE

BAND_POINTS = 180
BAND_SECONDS_LEAST = 1800
BACK_SECONDS = 60
"""The time after a restart during which the page shows how many workers are back."""


def strip(state: FeedState, now: float) -> dict[str, Any]:
    """Return the data of the strip."""
    model = state.model
    found = verdict(model, now)
    silent = model.silent_seconds(now)
    news = "never" if model.received_at is None else "old" if silent is not None else "live"
    return {
        "news": news,
        "silent": silent,
        "problem": state.problem,
        "address": state.address,
        "at": model.received_us / 1e6,
        "title": _title(found.word),
        "sentence": found.sentence,
        "warning": found.warning,
        "rate": model.rates.tasks,
        "left": units.about(model.left_seconds) if model.left_seconds else "",
        "open": model.open_tasks if model.scheduler else None,
        "failed": model.failed if model.scheduler else None,
        "failed_minute": _failed_in_a_minute(state),
        "workers": model.worker_count if model.scheduler else None,
        "busy": model.busy if model.workers else None,
        "restart": _restart(state, now),
        "failures": len(model.failures),
    }


def _title(word: str) -> str:
    titles = {NO_NEWS: "No news", IDLE: "Idle", NO_WORKERS: "No workers", NOT_ABLE: "Stuck: no worker can run them"}
    return titles.get(word, f"Working, bound by {word}")


def _failed_in_a_minute(state: FeedState) -> float:
    end = state.history.end
    values = state.history.read(("failed",), end - 60, 1, 60)["failed"] if end > 60 else []
    return round(sum(value for value in values if value), 1)


def _restart(state: FeedState, now: float) -> dict[str, Any] | None:
    """Return the last restart of the scheduler; None if there was no restart within `BACK_SECONDS`."""
    model = state.model
    if not model.restarts or model.received_at is None:
        return None
    since = model.received_us / 1e6 - model.restarts[-1]
    if since + now - model.received_at > BACK_SECONDS:
        return None
    return {"at": model.restarts[-1], "back": model.worker_count, "of": max(model.workers_before, model.worker_count)}


def band(state: FeedState, request: PageRequest, sent: SentState) -> dict[str, Any] | None:
    """Return the history for the band, as long as the page requests; None if the page already has it."""
    seconds = request.number_of("band", BAND_SECONDS_LEAST, BAND_SECONDS_LEAST, 604800)
    end = state.history.end if state.model.received_at is not None else int(time.time())
    start, step, count = state.history.span(seconds, BAND_POINTS, end)
    if sent.band_end == start:
        return None
    sent.band_end = start
    values = state.history.read(("success", "failed", "canceled"), start, step, count)
    restarts = [at for at in state.model.restarts if at >= start]
    return {"start": start, "step": step, "columns": values, "restarts": restarts, "kept": state.is_kept}
