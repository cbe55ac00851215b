"""Snapshot: one page of text about what the scheduler does now, for its log, when somebody sends SIGUSR1.

Made of the report of the actors and the counts of the edge. Must never: grow with the number of workers or clients.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler.actors.events import AGENT, CLIENT, NESTED_CLIENT
from scaler.actors.report import Report
from scaler.wire.traffic import Traffic

NAMED_MOST = 8
"""The workers and clients with the most tasks that are named, and the kinds of messages."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def snapshot(report: Report, received: Traffic, sent: Traffic, counts: dict[str, int]) -> str:
    """Return the page. `counts` are those of the process: they come last, as they are."""
    lines = (
        ("tasks", _tasks(report)),
        ("workers", _workers(report)),
        ("clients", _clients(report)),
        ("objects", _objects(report)),
        ("received", _traffic(received)),
        ("sent", _traffic(sent)),
        ("process", ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in counts.items())),
    )
    return "scheduler: what it does now" + "".join(f"\n  {title:9} {text}" for title, text in lines)


def _tasks(report: Report) -> str:
    if not report.of("balancer"):
        return "the balancer is being restarted"
    waiting, running = report.total("balancer", "ready_tasks"), report.total("worker", "tasks")
    text = f"{waiting:,} wait for a worker, {running:,} are at workers"
    blocked = report.total("worker", "blocked_tasks")
    if blocked:
        text += f", {blocked:,} of these wait for tasks of their own"
    graphs = report.total("graph", "open_nodes") - report.total("graph", "running_nodes")
    return f"{text}; {graphs:,} calls of {len(report.of('graph')):,} graphs wait for others" if graphs else text


def _workers(report: Report) -> str:
    workers = report.of("worker")
    busy = sum(counts["tasks"] > 0 for _, counts in workers)
    text = f"{len(workers):,} of {len(report.of(AGENT)):,} clusters, {busy:,} of them have tasks"
    return text + _most(workers)


def _clients(report: Report) -> str:
    nested = report.of(NESTED_CLIENT)
    clients = report.of(CLIENT) + nested
    tasks, graphs = (sum(counts[what] for _, counts in clients) for what in ("tasks", "graphs"))
    text = f"{len(clients):,}, {len(nested):,} of them in tasks; {tasks:,} open tasks, {graphs:,} open graphs"
    return text + _most(clients)


def _most(holders: Sequence[tuple[str, dict[str, int]]]) -> str:
    """Name those that have the most tasks."""
    found = sorted(((counts["tasks"], name) for name, counts in holders if counts["tasks"]), reverse=True)
    if not found:
        return ""
    return "; most tasks: " + ", ".join(f"{name} {count:,}" for count, name in found[:NAMED_MOST])


def _objects(report: Report) -> str:
    if not report.of("object store"):
        return "the object store is being restarted"
    (_, counts) = report.of("object store")[0]
    return (
        f"{counts['objects']:,} ({_size(counts['object_bytes'])}) of {counts['object_owners']:,} clients; "
        f"{counts['retained_objects']:,} functions kept by clusters only"
    )


def _traffic(traffic: Traffic) -> str:
    names = traffic.by_name()
    items = [f"{count:,} {name}" for name, count in names.items()][:NAMED_MOST]
    rest = sum(names.values()) - sum(list(names.values())[:NAMED_MOST])
    items += [f"{rest:,} others"] if rest else []
    return f"{', '.join(items) or 'nothing'}; {traffic.n_messages:,} messages, {_size(traffic.n_bytes)}"


def _size(n_bytes: float) -> str:
    unit = 0
    while n_bytes >= 1024 and unit < len(_UNITS) - 1:
        n_bytes /= 1024
        unit += 1
    return f"{n_bytes:.1f} {_UNITS[unit]}" if unit else f"{n_bytes:.0f} B"
