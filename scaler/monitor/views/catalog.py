"""Catalog: all views by name, in the order in which screens list them."""

from __future__ import annotations

from scaler.monitor.views import cluster, work, workers
from scaler.monitor.views.view import View

VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        workers.WORKERS,
        work.FUNCTIONS,
        cluster.CLIENTS,
        cluster.FAILURES,
        workers.HOSTS,
        cluster.EVENTS,
        work.JOBS,
        cluster.OBJECTS,
        work.TASKS,
        work.WAITING_GROUPS,
        work.GRAPHS,
        workers.PROCESSORS,
        workers.AGENTS,
        cluster.SCHEDULER,
        cluster.MESSAGES,
        cluster.ENDED,
        work.MOVES,
        work.LINES,
        work.NODES,
    )
}
BY_SINGULAR: dict[str, View] = {view.singular: view for view in VIEWS.values()}
OF_DETAILS = frozenset({"moves", "lines", "nodes"})
"""The views whose rows are only shown in the details of another subject."""
