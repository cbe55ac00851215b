"""Processors: the processes of the workers, each with what it runs."""

from __future__ import annotations

from typing import Any

from scaler.monitor.model.workers import Processor
from scaler.monitor.ui.feed import State
from scaler.monitor.ui.views.parts import page_of, worker_key
from scaler.monitor.ui.views.wish import Sent, Wish
from scaler.monitor.units import natural
from scaler.monitor.wanted import matches
from scaler.wire.messages.monitor import HAS_TASK, INITIALIZED, SUSPENDED, TASK_LOCK


def processors(state: State, wish: Wish, _sent: Sent, _now: float) -> dict[str, Any]:
    """Return the page."""
    model = state.model
    names = {worker.key: (worker.name, worker.host) for worker in model.workers}
    wanted = wish.text("filter")

    def name_of(each: Processor) -> tuple[str, str]:
        return names.get((each.agent, each.position), (f"{each.agent.hex()}.{each.position}", ""))

    rows = sorted(
        (each for each in model.processors if matches(wanted, name_of(each))),
        key=lambda each: ([natural(part) for part in name_of(each)], each.pid),
    )

    def row(each: Processor) -> dict[str, Any]:
        name, host = name_of(each)
        return {
            "key": f"{each.agent.hex()}.{each.position}.{each.pid}",
            "worker": name,
            "worker_key": worker_key((each.agent, each.position)),
            "host": host,
            "pid": each.pid,
            "cpu": each.cpu_permille / 1000,
            "rss": each.rss_bytes,
            "peak": each.peak_bytes,
            "initialized": bool(each.flags & INITIALIZED),
            "has_task": bool(each.flags & HAS_TASK),
            "suspended": bool(each.flags & SUSPENDED),
            "lock": bool(each.flags & TASK_LOCK),
            "running": each.running_ms / 1000,
            "function": model.function_name(each.function) if each.function else "",
            "task": each.task.hex(),
        }

    shown, total = model.shown_and_total("processors")
    return page_of(rows, wish, row) | {"heard": "processors" in model.heads, "shown": shown, "all": total}
