"""Parts: rows and series that several pages show."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from scaler.monitor import units
from scaler.monitor.model.functions import mean_us, percentile_us
from scaler.monitor.model.model import Model
from scaler.monitor.model.workers import WorkerView
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.views.view import ViewState
from scaler.monitor.views.workers import WORKERS
from scaler.wire.messages.monitor import StateFunction, StateTask
from scaler.wire.messages.vocabulary import FAILED, FAILURES

T = TypeVar("T")
POINTS = 300


_UNITS = {"us": 1e6, "ms": 1e3, "permille": 1e3, "bytes": 0}
_ID_BYTES_MOST = 16


@cache
def _fields(item: Any) -> tuple[tuple[str, str, float], ...]:
    """Return, for each field of a class of items: field, name on the page, and divisor of its values (0: none)."""
    parts = [(field.name, *field.name.rpartition("_")[::2]) for field in dataclasses.fields(item)]
    return tuple((name, stem if unit in _UNITS else name, _UNITS.get(unit, 0)) for name, stem, unit in parts)


def plain(item: Any, **more: Any) -> dict[str, Any]:
    """Return an item of the stream as a row for the page, in which `more` adds or replaces values.

    The names of fields lose their units, times become seconds or None, CPU time becomes cores, and ids become text. The
    first id is called `id`. Packed fields are left out.
    """
    row: dict[str, Any] = {}
    for field, name, divisor in _fields(item.__class__):
        value = getattr(item, field)
        if isinstance(value, bytes):
            if len(value) <= _ID_BYTES_MOST:
                row[name if row else "id"] = value.hex()
        elif divisor:
            row[name] = value / divisor or (None if divisor == _UNITS["us"] else 0)
        else:
            row[name] = value
    return row | more


def series(
    state: FeedState, request: PageRequest, sent: SentState, names: Sequence[str], seconds: int
) -> dict[str, Any]:
    """Return the values that a page lacks, of the `seconds` before the requested end or now. A new page lacks all."""
    end = request.number_of("end", 0, 0, 2**40) or None
    start, step, count = state.history.span(seconds, POINTS, end)
    shape = (step, count, end)
    is_known = sent.shape == shape and start <= sent.series_end
    last = start + step * count
    first = sent.series_end if is_known else start
    if is_known and last > first:
        first = max(start, first - step)  # further messages of that second may have arrived since
    sent.shape, sent.series_end = shape, last
    columns = state.history.read(names, first, step, (last - first) // step)
    return {"full": not is_known, "start": first, "step": step, "columns": columns}


def page_of(rows: Sequence[T], request: PageRequest, row: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
    """Return the requested rows, and the number of all rows."""
    offset = min(request.offset, max(0, len(rows) - 1) // request.limit * request.limit)
    page = rows[offset : offset + request.limit]
    return {"rows": [row(each) for each in page], "offset": offset, "total": len(rows)}


def worker_key(key: tuple[bytes, int]) -> str:
    """Return the key of a worker as text."""
    return f"{key[0].hex()}.{key[1]}"


def worker_row(state: FeedState, worker: WorkerView, left_seconds: float | None = None) -> dict[str, Any]:
    """Return a worker as a row for the page."""
    model = state.model
    return {
        "key": worker_key(worker.key),
        "host": worker.host,
        **{each.name: each.value(ViewState(model), worker) for each in WORKERS.fields if each.in_table},
        "seen": worker.seen_seconds,
        "function": model.function_name(worker.function) if worker.function else "",
        "running": worker.running_ms / 1000 if worker.is_busy else None,
        "flag": model.stuck.reasons.get(worker.key, ""),
        "gone": left_seconds,
        "leaving": ("", "drains", "lost, awaited")[min(worker.agent.is_leaving, 2)] if left_seconds is None else "",
    }


def function_row(function: StateFunction) -> dict[str, Any]:
    """Return a function as a row for the page."""
    mean, p95 = mean_us(function), percentile_us(function, 0.95)
    return plain(
        function,
        name=function.name or function.function.hex() or "all others",
        open=function.waiting + function.running,
        mean=None if mean is None else mean / 1e6,
        p95=None if p95 is None else p95 / 1e6,
        waits=units.waits_for(function.waits_for, function.asks),
    )


def task_row(model: Model, task: StateTask) -> dict[str, Any]:
    """Return a task as a row for the page."""
    function = task.function_name or model.function_name(task.function)
    name = task.name or function
    return plain(task, name=name, function_name=function, state=outcome(task.state), exact=task.state)


def outcome(state: str) -> str:
    """Return the state by which pages choose a colour."""
    return FAILED if state in FAILURES else state
