"""Timeline: what each worker did in each bin of time, and the tasks that are long enough to be drawn singly."""

from __future__ import annotations

from typing import Any

from scaler.monitor.model.tasks import RUNNING
from scaler.monitor.model.workers import SEEN_SECONDS
from scaler.monitor.ui.bins import POINTS
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.units import natural
from scaler.monitor.views.rows import matches
from scaler.monitor.views.view import ViewState
from scaler.monitor.views.work import word_of
from scaler.monitor.views.workers import WORKERS

LANES_MOST = 60
TASKS_MOST = 400
KEPT_SECONDS = 60
LANE_SECONDS = 300
"""The time that the lane of a single worker shows."""
WIDE_BINS = 2
"""The least duration, in bins, of a task that is drawn singly."""


def stream(state: FeedState, request: PageRequest, sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page: first all bins of the visible workers, then only new and changed bins."""
    model = state.model
    window = request.number_of("window", 300, 300, 1800)
    step = max(1, window // POINTS)
    wanted = request.text("filter")
    names = {worker.key: (worker.host, worker.name) for worker in model.workers}
    names |= {
        worker.key: (worker.host, worker.name) for worker, _ in state.departed.values() if worker.key not in names
    }
    keys = [key for key in set(state.bins.keys()) | set(names) if matches(wanted, names.get(key, ("", key[0].hex())))]
    keys.sort(key=lambda key: ([natural(part) for part in names.get(key, ("~", ""))], key))
    offset = min(request.number_of("offset", 0, 0, 10_000_000), max(0, len(keys) - 1) // LANES_MOST * LANES_MOST)
    shown = keys[offset : offset + LANES_MOST]
    end = request.number_of("end", 0, 0, 2**40) or end_of(state)
    last = end // step * step
    first = last - step * POINTS
    shape = (step, tuple(shown))
    is_known = sent.shape == shape and first <= sent.series_end <= last
    begin = sent.series_end if is_known else first
    sent.shape, sent.series_end = shape, last
    starts = {key: _changed_since(state, key, begin, step) if is_known else begin for key in shown}
    oldest = min(starts.values(), default=begin)
    return {
        "full": not is_known,
        "end": last,
        "count": (last - begin) // step,
        "step": step,
        "points": POINTS,
        "lanes": [
            [WORKERS.id_of(key), *reversed(names.get(key, ("", key[0].hex()))), *_bins(state, key, start, step, last)]
            for key, start in starts.items()
        ],
        "offset": offset,
        "total": len(keys),
        "tasks": [
            *running(state, set(shown), step),
            *_wide_tasks(state, {names[key][1] for key in shown if key in names}, first, step),
        ],
        "all": state.bins.read_all(len(keys), oldest, step, (last - oldest) // step),
    }


def _bins(state: FeedState, key: tuple[bytes, int], start: int, step: int, last: int) -> tuple[str, str]:
    return state.bins.read(key, start, step, (last - start) // step)


def end_of(state: FeedState) -> int:
    """Return the end of the time to show: that of the bins, or of the history, which continues while no task runs."""
    return max(state.bins.end, state.history.end if state.model.received_at is not None else 0)


def _changed_since(state: FeedState, key: tuple[bytes, int], end: int, step: int) -> int:
    """Return the start of the first bin that may have changed since the page received the bins up to `end`."""
    before = end - step  # further messages of the last bin may have arrived since
    return max(state.bins.changed_since(key, before - 1) // step * step, end - step * POINTS)


def running(state: FeedState, keys: set[tuple[bytes, int]], step: int) -> list[list[Any]]:
    """Return the running tasks of these workers that are long enough to be drawn singly.

    A task of a silent worker ends where the worker was last heard of.
    """
    found: list[list[Any]] = []
    for each in state.model.workers:
        if each.key in keys and each.is_busy and each.running_ms >= WIDE_BINS * step * 1000:
            at = state.model.received_us / 1e6
            is_silent = each.seen_seconds > SEEN_SECONDS
            at -= each.seen_seconds if is_silent else 0
            name = state.model.function_name(each.function)
            found.append(["", name, "running", each.name, at - each.running_ms / 1000, at if is_silent else 0])
    return found


def _wide_tasks(state: FeedState, workers: set[str], first: int, step: int) -> list[list[Any]]:
    """Return the sampled tasks of these workers that are long enough to be drawn singly, except those that run now.

    An open task that no agent reports any longer ends at the last report.
    """
    least_us = WIDE_BINS * step * 1_000_000
    found: list[list[Any]] = []
    tasks = state.model.tasks
    for task in reversed(tasks.values()):
        if tasks.state_of(task) == RUNNING:
            continue  # see `running`
        started, ended = task.started_us, task.ended_us or tasks.seen_us(task)
        if not started or ended - started < least_us or ended < first * 1_000_000 or task.worker not in workers:
            continue
        name = task.name or task.function_name
        found.append([task.task.hex(), name, word_of(tasks.state_of(task)), task.worker, started / 1e6, ended / 1e6])
        if len(found) >= TASKS_MOST:
            break
    return found


def view_state(state: FeedState, now: float, kept: int = KEPT_SECONDS) -> ViewState:
    """Return the data from which views are made, with the workers that left within the last `kept` seconds."""
    departed = {key: (worker, now - at) for key, (worker, at) in state.departed.items() if now - at < kept}
    return ViewState(state.model, now, departed, state.old_failures, state.events, lambda key: lane(state, key))


def lane(state: FeedState, key: tuple[bytes, int]) -> dict[str, Any] | None:
    """Return what a worker did in the last minutes, and the functions that kept it busy; None if it is unknown."""
    names = {worker.key: worker for worker in [*state.model.workers, *(each for each, _ in state.departed.values())]}
    if key not in names:
        return None
    end = end_of(state)
    busy, ends = state.bins.read(key, end - LANE_SECONDS, 1, LANE_SECONDS)
    ran = state.bins.functions_of(key, end - LANE_SECONDS, end)
    ordered = sorted(ran.items(), key=lambda item: -item[1])
    return {
        "name": names[key].name,
        "host": names[key].host,
        "end": end,
        "busy": busy,
        "ends": ends,
        "tasks": running(state, {key}, 1),
        "ran": [[state.model.function_name(function), seconds] for function, seconds in ordered],
    }
