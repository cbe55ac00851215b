"""Snapshot: one page about the agent's present state, for its log, on SIGUSR1.

Made of the counts of the link and the edge. Must never: grow with the number of workers.
"""

from __future__ import annotations

from scaler.process.report import Report, in_words, page, traffic, with_most_tasks
from scaler.wire.session.traffic import Traffic


def snapshot(report: Report, address: str, received: Traffic, sent: Traffic, counts: dict[str, int]) -> str:
    """Return the page. `counts` are those of the process: they come last, as they are."""
    ((state, link),) = report.of("link")
    workers = report.of("worker")
    busy = sum(worker["tasks"] > 0 for _, worker in workers)
    return page(
        "cluster: what it does now",
        (
            ("scheduler", f"{address} ({state}); {link['results']:,} results that may not have arrived there"),
            ("tasks", f"{link['tasks']:,} at workers, {link['blocked_tasks']:,} of these wait for tasks of their own"),
            ("workers", f"{len(workers):,}, {busy:,} of them have tasks" + with_most_tasks(workers)),
            ("received", traffic(received)),
            ("sent", traffic(sent)),
            ("process", in_words(counts)),
        ),
    )
