"""The model as plain data for programs: what `scaler_top --once --json` prints. Ids are hexadecimal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scaler.monitor.model.model import Model
from scaler.monitor.model.values import values_by_host
from scaler.monitor.model.verdict import verdict
from scaler.monitor.model.workers import WorkerView, percentile_us


def report(model: Model, now: float) -> dict[str, Any]:
    """Return the present state of a model. Unknown values are None."""
    found = verdict(model, now)
    state = model.scheduler
    return {
        "time_us": model.received_us,
        "verdict": found.word,
        "advice": found.sentence,
        "warning": found.warning,
        "left_seconds": model.left_seconds,
        "scheduler": _scheduler(model),
        "tasks": {
            "unassigned": state.waiting if state else None,
            "running": state.running if state else None,
            **model.outcomes,
            "per_second": model.rates.tasks,
            "waiting_for": model.reasons,
            "ended": model.ended,
        },
        "waiting": _waiting(model),
        "sent": model.sent,
        "received": model.received,
        "clients": _clients(model),
        "functions": _functions(model),
        "failures": _failures(model),
        "values": {host: asdict(values) for host, values in values_by_host(model.agents.values()).items()},
        "workers": [_worker(model, worker) for worker in model.workers],
        "workers_total": model.worker_count,
    }


def _fields(each: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(each, name) for name in names}


def _scheduler(model: Model) -> dict[str, Any] | None:
    state = model.scheduler
    if state is None:
        return None
    return {
        "id": model.scheduler_id.hex(),
        "address": state.address,
        "version": state.package_version,
        **_fields(state, "started_us", "cpu_permille", "rss_bytes"),
        "rss_free_bytes": state.free_bytes,
        "loop_lag_us": state.lag_most_us,
        **_fields(state, "objects", "object_bytes", "shared_bytes"),
    }


def _waiting(model: Model) -> list[dict[str, Any]]:
    return [_fields(each, "asks", "waits_for", "sentence", "waiting", "running", "places") for each in model.waiting]


def _clients(model: Model) -> list[dict[str, Any]]:
    return [
        {"id": each.client.hex(), "label": each.label, "owner": each.owner, "open": each.open, "waiting": each.waiting}
        for each in model.clients.values()
    ]


def _functions(model: Model) -> list[dict[str, Any]]:
    return [
        {
            "id": each.function.hex(),
            **_fields(each, "name", "waiting", "running", "success"),
            "failed": each.failed + each.other,
            "canceled": each.canceled,
            "mean_us": each.mean_us or None,
            "p95_us": percentile_us(each.durations, 0.95),
            **_fields(each, "waits_for", "asks"),
        }
        for each in model.functions.values()
    ]


def _failures(model: Model) -> list[dict[str, Any]]:
    return [
        {
            **_fields(each, "type", "message"),
            "function": each.function_name,
            "count": each.times,
            **_fields(each, "first_us", "last_us"),
            "task": each.task.hex(),
            **_fields(each, "worker", "traceback"),
        }
        for each in model.failures.values()
    ]


def _worker(model: Model, worker: WorkerView) -> dict[str, Any]:
    agent = worker.agent
    return {
        **_fields(worker, "name", "host"),
        "agent_pid": agent.pid or None,
        "agent_cpu_permille": agent.cpu_permille,
        "agent_rss_bytes": agent.rss_bytes or None,
        **_fields(worker, "cpu_permille", "rss_bytes"),
        "rss_free_bytes": agent.free_bytes or None,
        **_fields(worker, "free", "sent", "queued", "suspended"),
        "lag_us": agent.lag_us or None,
        "seen_seconds": worker.seen_seconds,
        "itl": worker.marks,
        "busy": worker.is_busy,
        "function": model.function_name(worker.function) if worker.function else None,
        "running_ms": worker.running_ms if worker.is_busy else None,
        "stuck": model.stuck.reasons.get(worker.key),
    }
