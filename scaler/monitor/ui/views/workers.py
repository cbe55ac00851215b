"""Workers: the visible rows of workers, one worker, and the processes of all workers."""

from __future__ import annotations

from typing import Any

from scaler.monitor.model.model import Model
from scaler.monitor.model.workers import ProcessorView
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, PageRequestError, SentState
from scaler.monitor.ui.views.parts import page_of, plain, task_row, worker_key, worker_row
from scaler.monitor.ui.views.timeline import end_of, running
from scaler.monitor.units import natural
from scaler.monitor.views.rows import in_order, matches
from scaler.monitor.views.view import FLAG, ViewState
from scaler.monitor.views.workers import WORKERS

TASKS_MOST = 50

_COLUMNS = ("name", "cpu", "rss", "sent", "queued", "free", "suspended", "lag", "agent_cpu", "rss_free", "marks")
"""The columns in the order of the page. The column `agent_cpu` also shows the memory of the agent."""
_SENT_COLUMNS = [
    {"name": each.name, "title": each.heading, "unit": "lag" if each.name == "lag" else each.type.name}
    for name in _COLUMNS
    for each in WORKERS.fields
    if each.name == name
]


def worker_table(state: FeedState, request: PageRequest, now: float) -> dict[str, Any]:
    """Return the visible rows of the table of workers."""
    model = state.model
    wanted = request.text("filter")
    order = request.text("sort") or "flag"
    flagged, is_reversed = model.stuck.reasons, request.flag("reverse")
    column = WORKERS.field(order)
    if column is None and order != FLAG:
        raise PageRequestError("there is no such column")
    is_down = is_reversed != (column is not None and column.type.is_number)
    workers = in_order(
        WORKERS,
        ViewState(model),
        [each for each in model.workers if matches(wanted, (each.name, each.host))],
        f"-{order}" if is_down else order,
    )
    kept = request.number_of("kept", 60, 0, 3600)
    left = {worker.key: now - at for worker, at in state.departed.values() if now - at < kept}
    departed = [
        worker for worker, _ in state.departed.values() if worker.key in left and matches(wanted, (worker.name,))
    ]
    table = page_of([*workers, *departed], request, lambda each: worker_row(state, each, left.get(each.key)))
    return table | {
        "columns": _SENT_COLUMNS,
        "sort": order,
        "reverse": is_reversed,
        "all": len(model.workers),
        "claimed": model.scheduler.workers if model.scheduler else 0,
        "flagged": len(flagged),
    }


def worker(state: FeedState, request: PageRequest, _sent: SentState, now: float) -> dict[str, Any]:
    """Return the data of the page about one worker, found by key or by name."""
    model = state.model
    wanted = request.text("id")
    known = [*((each, None) for each in model.workers), *((each, now - at) for each, at in state.departed.values())]
    found = [(each, left) for each, left in known if wanted in (worker_key(each.key), each.name)]
    if not found:
        return {"worker": None}
    one, left = found[0]
    end = end_of(state)
    busy, ends = state.bins.read(one.key, end - 300, 1, 300)
    ran = state.bins.functions_of(one.key, end - 300, end)
    tasks = [task for task in reversed(model.tasks.values()) if task.worker == one.name][:TASKS_MOST]
    return {
        "worker": worker_row(state, one, left),
        "same_name": len(found) - 1,
        "about": {
            "engine": one.agent.engine,
            "python": one.agent.python_version,
            "capabilities": one.agent.capabilities,
            "agent_pid": one.agent.pid,
            "ended": one.ended,
        },
        "lane": {"end": end, "busy": busy, "ends": ends, "tasks": running(state, {one.key}, 1)},
        "ran": [[model.function_name(name), count] for name, count in sorted(ran.items(), key=lambda item: -item[1])],
        "processors": [
            _processor_row(model, each) for each in model.processors if (each.agent, each.position) == one.key
        ],
        "tasks": [task_row(model, task) for task in tasks],
    }


def processors(state: FeedState, request: PageRequest, _sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page about the processes of workers."""
    model = state.model
    names = {worker.key: (worker.name, worker.host) for worker in model.workers}
    wanted = request.text("filter")

    def name_of(each: ProcessorView) -> tuple[str, str]:
        return names.get((each.agent, each.position), (f"{each.agent.hex()}.{each.position}", ""))

    rows = sorted(
        (each for each in model.processors if matches(wanted, name_of(each))),
        key=lambda each: ([natural(part) for part in name_of(each)], each.pid),
    )

    def row(each: ProcessorView) -> dict[str, Any]:
        name, host = name_of(each)
        key = worker_key((each.agent, each.position))
        return _processor_row(model, each, key=f"{key}.{each.pid}", worker=name, worker_key=key, host=host)

    shown, total = model.shown_and_total("processors")
    return page_of(rows, request, row) | {"shown": shown, "all": total}


def _processor_row(model: Model, each: ProcessorView, **more: Any) -> dict[str, Any]:
    return plain(each, function=model.function_name(each.function) if each.function else "", **more)
