"""The views as plain data for programs: what `scaler_top --once --json` prints. Ids are hexadecimal."""

from __future__ import annotations

from typing import Any

from scaler.monitor.model.model import Model
from scaler.monitor.model.verdict import verdict
from scaler.monitor.views.catalog import OF_DETAILS, VIEWS
from scaler.monitor.views.cluster import SCHEDULER
from scaler.monitor.views.frames import plain_row
from scaler.monitor.views.rows import Wanted, chosen
from scaler.monitor.views.view import View, ViewState
from scaler.monitor.views.work import FUNCTIONS
from scaler.monitor.views.workers import HOSTS

TOPICS = frozenset({"objects", "graphs", "processors", "tasks"})
"""The topics whose rows only programs get, besides those of the first screen."""
_SCALES = {"us": 1e6, "ms": 1e3, "permille": 1e3}


def report(model: Model, now: float) -> dict[str, Any]:
    """Return the present state of a model. Unknown values, and rows that have not arrived, are None."""
    state = ViewState(model, now)
    found = verdict(model, now)
    scheduler = model.scheduler
    rows = {
        view.report or view.name: _rows(view, state)
        for name, view in VIEWS.items()
        if name not in OF_DETAILS and view is not SCHEDULER
    }
    return {
        "time_us": model.received_us,
        "verdict": found.word,
        "advice": found.sentence,
        "warning": found.warning,
        "left_seconds": model.left_seconds,
        "scheduler": _scheduler(state),
        "tasks": {
            "unassigned": scheduler.waiting if scheduler else None,
            "running": scheduler.running if scheduler else None,
            **model.outcomes,
            "per_second": model.rates.tasks,
            "waiting_for": model.reasons,
            "ended": model.ended,
        },
        "sent": model.sent,
        "received": model.received,
        "values": {each["name"]: {name: each[name] for name, *_ in _older(HOSTS)} for each in rows["hosts"] or ()},
        "workers_total": model.worker_count,
        **rows,
    }


def _rows(view: View, state: ViewState) -> list[dict[str, Any]] | None:
    is_known = state.model.heads.keys() >= view.needed_topics or not view.needed_topics & TOPICS
    if not is_known:
        return None
    older = _older(view)
    return [_row(view, state, older, each) for each in chosen(view, state, Wanted())]


def _older(view: View) -> list[tuple[str, float, str]]:
    """Return the earlier names of values, the factors that lead to their units, and the names of the fields."""
    return [(name, _SCALES.get(name.rpartition("_")[2], 0), each.name) for each in view.fields for name in each.old]


def _row(view: View, state: ViewState, older: list[tuple[str, float, str]], subject: Any) -> dict[str, Any]:
    values = plain_row(view, state, view.fields, subject)
    for name, factor, field in older:
        value = values[field]
        values[name] = round(value * factor) if factor and value is not None else value
    if view is FUNCTIONS and not subject.function:
        values["name"] = ""
    return values


def _scheduler(state: ViewState) -> dict[str, Any] | None:
    if state.model.scheduler is None:
        return None
    values = _row(SCHEDULER, state, _older(SCHEDULER), state.model.scheduler)
    return values | {"id": state.model.scheduler_id.hex()}
