"""The page that an agent writes into its log when it is asked what it does."""

from __future__ import annotations

from scaler.agent.snapshot import snapshot
from scaler.process.report import Report
from scaler.wire.messages.worker import RunTask
from scaler.wire.session.traffic import Traffic


def test_the_page_of_an_agent() -> None:
    report, received, sent = Report(), Traffic(), Traffic()
    report.add("link", "up", {"tasks": 1203, "blocked_tasks": 2, "results": 4})
    for name, tasks in (("ann", 3), ("bob", 1200), ("cid", 0)):
        report.add("worker", name, {"tasks": tasks})
    received.items[RunTask] = 5000
    received.add_message(bytes(2048), ())
    assert snapshot(report, "tcp://10.0.0.1:2345", received, sent, {"dead_letters": 7}).splitlines() == [
        "cluster: what it does now",
        "  scheduler tcp://10.0.0.1:2345 (up); 4 results that may not have arrived there",
        "  tasks     1,203 at workers, 2 of these wait for tasks of their own",
        "  workers   3, 2 of them have tasks; most tasks: bob 1,200, ann 3",
        "  received  5,000 RunTask; 1 messages, 2.0 KiB",
        "  sent      nothing; 0 messages, 0 B",
        "  process   7 dead letters",
    ]
