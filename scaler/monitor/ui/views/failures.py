"""Failures: what failed, one row for each kind, the latest first; also of before a restart."""

from __future__ import annotations

from typing import Any

from scaler.monitor.ui.feed import State
from scaler.monitor.ui.views.parts import failure_row, page_of
from scaler.monitor.ui.views.wish import Sent, Wish
from scaler.monitor.wanted import matches


def failures(state: State, wish: Wish, _sent: Sent, _now: float) -> dict[str, Any]:
    """Return the page."""
    model = state.model
    wanted = wish.text("filter")
    everything = {**state.old_failures, **model.failures}
    rows = [
        each
        for each in everything.values()
        if matches(wanted, (each.type, each.message, each.function_name, each.worker))
    ]
    rows.sort(key=lambda each: -each.last_us)
    shown, total = model.shown_and_total("failures")
    page = page_of(rows, wish, lambda each: failure_row(each) | {"old": each.failure not in model.failures})
    return page | {"shown": shown, "all": max(total, len(model.failures)), "failed": model.failed}
