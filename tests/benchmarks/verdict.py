"""Processor time of the verdict each second, with many functions that wait and many workers that report.

The counters of the last second, the work of the waiting tasks, the busy workers of all reports, and the verdict, as
they are computed while a viewer is subscribed. No sockets: the parts of the monitor are called directly.

    python -m tests.benchmarks.verdict                         10,000 functions, 1,000 workers behind 50 agents
    python -m tests.benchmarks.verdict --functions 100 --workers 100
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from scaler.actors.messages.monitor import AgentSeen, Backlog
from scaler.actors.monitor.agents import WatchedAgents
from scaler.actors.monitor.board import Gauges
from scaler.actors.monitor.functions import FunctionTotals
from scaler.actors.monitor.load.diagnosis import Diagnosis
from scaler.actors.monitor.overview import waiting_items
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.capacity import Capacity, ResourceGroup
from scaler.actors.vocabulary.events import Events, PeerIdentity
from scaler.durations import Durations
from scaler.ids import ObjectId, content_id
from scaler.wire.messages.monitor import HAS_TASK, WORKER_ROW
from scaler.wire.messages.worker import AgentState

AGENTS = 50
REPORT_SECONDS = 2
ADDRESS = "tcp://127.0.0.1:2345"


def seconds_of(functions: int, workers: int, seconds: int) -> Iterator[float]:
    """Yield the processor time of each second."""
    ids = [content_id([str(number).encode()]) for number in range(functions)]
    waiting: Counter[ObjectId] = Counter({each: 1 + number % 7 for number, each in enumerate(ids)})
    durations = Durations(1000, 2 * functions)
    for each in ids:
        durations.learn(each, 5_000, 1)
    totals, diagnosis, agents = FunctionTotals(ObjectTable(), Events()), Diagnosis(), WatchedAgents()
    known = durations.known_us, None
    group = ResourceGroup("", waiting.total(), workers, workers, Capacity(workers, 0, workers), waiting, *known)
    backlog = Backlog(waiting=group.waiting, running=workers, workers=workers, groups=[group])
    reports = [report(number, workers // AGENTS) for number in range(AGENTS)]
    for second in range(seconds):
        began = time.process_time()
        for each in reports if second % REPORT_SECONDS == 0 else ():
            agents.add(each)
        diagnosis.count(second, 1_000_000 * second, 100 * second, Gauges(), 0.0)
        groups = list(waiting_items(backlog, totals, ADDRESS, ()))
        diagnosis.update(second, groups, agents.load(workers), (group.waiting + workers, workers), ADDRESS)
        yield time.process_time() - began


def report(number: int, workers: int) -> AgentSeen:
    """Return a report of an agent with this number of workers."""
    session: Any = number
    peer: Any = SimpleNamespace(connection=True)
    rows = WORKER_ROW.pack(0, 2, 1, 0, HAS_TASK, 0, bytes(8), 5, 0) * workers
    identity = PeerIdentity(bytes([number]) * 16, "0", "3")
    return AgentSeen(session, peer, identity, False, AgentState("host", "processes", 1, workers=rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=10_000, help="functions with waiting tasks")
    parser.add_argument("--workers", type=int, default=1_000, help="workers, behind 50 agents")
    parser.add_argument("--seconds", type=int, default=200, help="seconds that are simulated")
    options = parser.parse_args()
    times = [1e3 * each for each in seconds_of(options.functions, options.workers, options.seconds)]
    median, high = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(f"| functions | workers | ms a second: median | 95 % below |\n|--:|--:|--:|--:|")  # noqa: F541
    print(f"| {options.functions:,} | {options.workers:,} | {median:.2f} | {high:.2f} |")


if __name__ == "__main__":
    main()
