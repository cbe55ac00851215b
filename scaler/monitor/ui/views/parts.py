"""Parts: rows and series that several pages show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from scaler.monitor import units
from scaler.monitor.columns import BY_NAME
from scaler.monitor.model.model import Model
from scaler.monitor.model.workers import Worker, percentile_us
from scaler.monitor.ui.feed import State
from scaler.monitor.ui.views.wish import Sent, Wish
from scaler.wire.messages.monitor import StateFailure, StateFunction, StateTask
from scaler.wire.messages.vocabulary import FAILED, FAILURES

T = TypeVar("T")
POINTS = 300


def series(state: State, wish: Wish, sent: Sent, names: Sequence[str], seconds: int) -> dict[str, Any]:
    """Return series over the last seconds, or up to the end that the page asks for: all, then only what is new."""
    end = wish.number_of("end", 0, 0, 2**40) or None
    start, step, count = state.history.span(seconds, POINTS, end)
    shape = (step, count, end)
    is_known = sent.shape == shape and start <= sent.series_end
    last = start + step * count
    first = sent.series_end if is_known else start
    if is_known and last > first:
        first = max(start, first - step)  # more news of that second may have come since
    sent.shape, sent.series_end = shape, last
    columns = state.history.read(names, first, step, (last - first) // step)
    return {"full": not is_known, "start": first, "step": step, "columns": columns}


def page_of(rows: Sequence[T], wish: Wish, row: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
    """Return the rows that the page has room for, and how many there are."""
    offset = min(wish.offset, max(0, len(rows) - 1) // wish.limit * wish.limit)
    page = rows[offset : offset + wish.limit]
    return {"rows": [row(each) for each in page], "offset": offset, "total": len(rows)}


def worker_key(key: tuple[bytes, int]) -> str:
    """Return the key of a worker as a text."""
    return f"{key[0].hex()}.{key[1]}"


def worker_row(state: State, worker: Worker, left_seconds: float | None = None) -> dict[str, Any]:
    """Return a worker."""
    model = state.model
    return {
        "key": worker_key(worker.key),
        "host": worker.host,
        **{name: column.plain(worker) for name, column in BY_NAME.items()},
        "seen": worker.seen_seconds,
        "function": model.function_name(worker.function) if worker.function else "",
        "running": worker.running_ms / 1000 if worker.is_busy else None,
        "flag": model.stuck.reasons.get(worker.key, ""),
        "gone": left_seconds,
        "leaving": ("", "drains", "lost, awaited")[min(worker.agent.is_leaving, 2)] if left_seconds is None else "",
    }


def function_row(function: StateFunction) -> dict[str, Any]:
    """Return a function."""
    p95 = percentile_us(function.durations, 0.95)
    return {
        "id": function.function.hex(),
        "name": function.name if function.function else "all others",
        "open": function.waiting + function.running,
        "waiting": function.waiting,
        "running": function.running,
        "success": function.success,
        "failed": function.failed + function.other,
        "canceled": function.canceled,
        "mean": function.mean_us / 1e6 or None,
        "p95": None if p95 is None else p95 / 1e6,
        "waits": units.waits_for(function.waits_for, function.asks),
    }


def task_row(model: Model, task: StateTask) -> dict[str, Any]:
    """Return a task."""
    return {
        "id": task.task.hex(),
        "name": task.name or task.function_name or model.function_name(task.function),
        "function": task.function.hex(),
        "function_name": task.function_name or model.function_name(task.function),
        "state": outcome(task.state),
        "exact": task.state,
        "worker": task.worker,
        "attempt": task.attempt,
        "submitted": task.submitted_us / 1e6,
        "started": task.started_us / 1e6,
        "ended": task.ended_us / 1e6,
        "duration": task.duration_us / 1e6 or None,
        "cpu": task.cpu_us / 1e6 or None,
        "peak": task.peak_bytes or None,
        "reason": task.reason,
        "graph": task.graph.hex(),
    }


def failure_row(failure: StateFailure) -> dict[str, Any]:
    """Return a kind of failure."""
    return {
        "id": failure.failure.hex(),
        "type": failure.type,
        "message": failure.message,
        "function": failure.function.hex(),
        "function_name": failure.function_name,
        "times": failure.times,
        "first": failure.first_us / 1e6,
        "last": failure.last_us / 1e6,
        "task": failure.task.hex(),
        "worker": failure.worker,
        "traceback": failure.traceback,
    }


def outcome(state: str) -> str:
    """Return the state as pages colour it."""
    return FAILED if state in FAILURES else state
