"""Snapshot: a page of text about the scheduler's present state, logged on SIGUSR1; and the last line of its log.

The length of the page does not depend on the number of workers or clients.
"""

from __future__ import annotations

from scaler.actors.vocabulary.events import AGENT, CLIENT, NESTED_CLIENT
from scaler.process.report import Report, in_words, page, size, traffic, with_most_tasks
from scaler.texts import counted
from scaler.wire.session.traffic import Traffic

_LEFT = ("sessions", "objects", "object_bytes", "object_owners", "retained_objects", "actors_with_mail")


def snapshot(report: Report, received: Traffic, sent: Traffic, counts: dict[str, int]) -> str:
    """Return the page of text, whose last row has the counts of the process."""
    return page(
        "scheduler: what it does now",
        (
            ("tasks", _tasks(report)),
            ("workers", _workers(report)),
            ("clients", _clients(report)),
            ("objects", _objects(report)),
            *_jobs(report),
            ("received", traffic(received)),
            ("sent", traffic(sent)),
            ("process", in_words(counts)),
        ),
    )


def ended(counts: dict[str, int]) -> str:
    """Return the last line of the log: what the scheduler has done, and what was left at its end."""
    left = ", ".join(f"{name.replace('_', ' ')} {counts[name]:,}" for name in _LEFT)
    return (
        f"scheduler: ended: it has received {counts['messages_received']:,} messages "
        f"({size(counts['bytes_received'])}) and sent {counts['messages_sent']:,} ({size(counts['bytes_sent'])}); "
        f"{counts['bad_messages']:,} could not be read, {counts['undeliverable']:,} were for lost peers, "
        f"{counts['failures']:,} of its actors' handlers failed; left at the end: {left}"
    )


def _tasks(report: Report) -> str:
    if not report.of("balancer"):
        return "the balancer is being restarted"
    waiting, running = report.total("balancer", "ready_tasks"), report.total("worker", "tasks")
    text = f"{waiting:,} wait for a worker, {running:,} are at workers"
    blocked = report.total("worker", "blocked_tasks")
    if blocked:
        text += f", {blocked:,} of these wait for nested tasks"
    inputs = report.total(CLIENT, "waiting") + report.total(NESTED_CLIENT, "waiting")
    return f"{text}; {inputs:,} wait for results of other tasks" if inputs else text


def _workers(report: Report) -> str:
    workers = report.of("worker")
    busy = sum(counts["tasks"] > 0 for _, counts in workers)
    text = f"{len(workers):,} in {counted(len(report.of(AGENT)), 'cluster')}, {busy:,} of them have tasks"
    return text + with_most_tasks(workers)


def _clients(report: Report) -> str:
    nested = report.of(NESTED_CLIENT)
    clients = report.of(CLIENT) + nested
    tasks, graphs = (sum(counts[what] for _, counts in clients) for what in ("tasks", "graphs"))
    text = f"{len(clients):,}, {len(nested):,} of them in tasks; {tasks:,} open tasks, {graphs:,} open graphs"
    return text + with_most_tasks(clients)


def _objects(report: Report) -> str:
    if not report.of("object store"):
        return "the object store is being restarted"
    (_, counts) = report.of("object store")[0]
    return (
        f"{counts['objects']:,} ({size(counts['object_bytes'])}) of {counted(counts['object_owners'], 'client')}; "
        f"{counts['retained_objects']:,} functions kept only by clusters"
    )


def _jobs(report: Report) -> list[tuple[str, str]]:
    return [("jobs", f"{counts['jobs']:,} are in memory") for _, counts in report.of("jobs")]
