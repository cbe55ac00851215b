"""Catalog: all views by name, in the order in which screens list them."""

from __future__ import annotations

from typing import Any

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


def detail_topics(view: View, key: Any) -> frozenset[str]:
    """Return the topics of the stream that the details of a subject need: its own, and those of the rows in them."""
    rows = {topic for part in view.parts if part.view for topic in VIEWS[part.view].needed_topics if topic[-1] != "/"}
    own = {view.topic_of(key)} if view.detail_topic.endswith("/") else {view.topic_of(key), *view.needed_topics}
    return frozenset(filter(None, rows | own))
