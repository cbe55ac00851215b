"""Jobs: the jobs of the scheduler, and their progress."""

from __future__ import annotations

from functools import partial
from typing import Any

from scaler.monitor.model.jobs import OPEN, PAUSED, JobRates, state_of
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.ui.views.parts import page_of, plain
from scaler.wire.messages.monitor import StateJob


def jobs(state: FeedState, request: PageRequest, _sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page: open jobs, then ended jobs by time of change; or one job that the page requests."""
    model = state.model
    if request.short_id:
        job = model.jobs.get(request.short_id)
        return {"job": _row(model.job_rates, job) if job else None}
    rows = sorted(model.jobs.values(), key=lambda each: (each.state not in (OPEN, PAUSED), -each.changed_us))
    _, total = model.shown_and_total("jobs")
    return page_of(rows, request, partial(_row, model.job_rates)) | {"all": max(total, len(rows))}


def _row(rates: JobRates, job: StateJob) -> dict[str, Any]:
    return plain(
        job,
        state=state_of(job),
        rate=rates.per_second(job),
        left=rates.left(job),
        failures=job.failures.splitlines(),
    )
