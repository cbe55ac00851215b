"""Memory: memory of scheduler, agents and worker processes over time, values on each host, and the largest objects."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scaler.monitor.model.values import values_by_host
from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.ui.views.parts import plain, series

OBJECTS_MOST = 50
HOSTS_MOST = 100


def memory(state: FeedState, request: PageRequest, sent: SentState, _now: float) -> dict[str, Any]:
    """Return the data of the page."""
    model = state.model
    window = request.number_of("window", 300, 60, 604800)
    hosts: dict[str, dict[str, Any]] = {}
    for agent in model.agents.values():
        row = hosts.setdefault(
            agent.host, {"host": agent.host, "agents": 0, "processes": 0, "free": None, "workers": 0}
        )
        row["agents"] += agent.rss_bytes
        row["free"] = agent.free_bytes or row["free"]
    for worker in model.workers:
        row = hosts[worker.host]
        row["workers"] += 1
        row["processes"] += worker.rss_bytes or 0
    for host, values in values_by_host(model.agents.values()).items():
        hosts[host] |= asdict(values)
    ordered = sorted(hosts.values(), key=lambda row: row["free"] or 0)
    objects = sorted(model.objects.values(), key=lambda each: -each.size_bytes)
    labels = {key: client.label for key, client in model.clients.items()}
    shown, total = model.shown_and_total("objects")
    return {
        "series": series(state, request, sent, ("scheduler", "agents", "processors", "objects"), window),
        "hosts": ordered[:HOSTS_MOST],
        "hosts_total": len(ordered),
        "objects": [plain(each) | {"client_label": labels.get(each.client, "")} for each in objects[:OBJECTS_MOST]],
        "objects_total": max(total, shown, len(objects)),
        "heard": "objects" in model.heads,
    }
