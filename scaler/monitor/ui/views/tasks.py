"""Tasks: the sample of single tasks, one task with its history, all tasks of one function, and failures."""

from __future__ import annotations

from typing import Any

from scaler.monitor.model.functions import run_counts
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.ui.views.parts import function_row, outcome, page_of, plain, task_row
from scaler.monitor.views.rows import matches
from scaler.wire.messages.common import OUTPUT_STREAMS
from scaler.wire.messages.monitor import StateTask
from scaler.wire.messages.vocabulary import FAILED

FUNCTION_TASKS_MOST = 50


def tasks(state: FeedState, request: PageRequest, _sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page, the newest tasks first."""
    model = state.model
    wanted, kind = request.text("filter"), request.text("state")
    start, end = request.number_of("start", 0, 0, 2**40), request.number_of("end", 0, 0, 2**40)
    stored = request.number_of("stored", 0, 0, 604800)
    if stored and not start:
        start = max(0, int(model.received_us / 1e6) - stored)

    def is_wanted(task: StateTask) -> bool:
        at = (task.ended_us or task.started_us or task.submitted_us) / 1e6
        if (start and at and at < start) or (end and at > end):
            return False
        if kind and outcome(task.state) != kind:
            return False
        whose = (task.owner, task.client_label)
        return matches(wanted, (task.name, task.function_name, task.worker, task.reason, task.task.hex(), *whose))

    rows = [task for task in reversed(model.tasks.values()) if is_wanted(task)]
    ended = sum(model.outcomes.values())
    return page_of(rows, request, lambda task: task_row(model, task)) | {"kept": len(model.tasks), "ended": ended}


def task(state: FeedState, request: PageRequest, _sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page about one task."""
    model = state.model
    one = model.tasks.get(request.short_id)
    has_failed = one is not None and outcome(one.state) == FAILED
    kind = model.failure_of(one if one and has_failed else StateTask(request.short_id), state.old_failures.values())
    return {
        "task": task_row(model, one) if one else None,
        "moves": [plain(move, state=outcome(move.state)) for move in model.moves.get(request.short_id, ())],
        "output": [plain(line, stream=OUTPUT_STREAMS[line.stream]) for line in model.output.get(request.short_id, ())],
        "failure": plain(kind) if kind is not None else None,
        "is_example": kind is not None and kind.task == request.short_id,
    }


def function(state: FeedState, request: PageRequest, _sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page about one function, found by short id or by name."""
    model = state.model
    wanted = request.text("id")
    found = [each for each in model.functions.values() if wanted in (each.function.hex(), each.name)]
    if not found:
        return {"function": None}
    one = found[0]
    recent = [task for task in reversed(model.tasks.values()) if task.function == one.function]
    return {
        "function": function_row(one),
        "why": model.why_it_waits(one),
        "buckets": run_counts(one),
        "failures": [plain(each) for each in model.failures.values() if each.function == one.function],
        "tasks": [task_row(model, task) for task in recent[:FUNCTION_TASKS_MOST]],
    }


def failures(state: FeedState, request: PageRequest, _sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page about failures."""
    model = state.model
    wanted = request.text("filter")
    everything = {**state.old_failures, **model.failures}
    rows = [
        each
        for each in everything.values()
        if matches(wanted, (each.type, each.message, each.function_name, each.worker))
    ]
    rows.sort(key=lambda each: -each.last_us)
    shown, total = model.shown_and_total("failures")
    page = page_of(rows, request, lambda each: plain(each, old=each.failure not in model.failures))
    return page | {"shown": shown, "all": max(total, len(model.failures)), "failed": model.failed}
