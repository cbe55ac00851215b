"""A made-up cluster on a real monitor socket: many workers, many tasks a second, failures, graphs, a restart.

    python -m tests.support.monitor_traffic tcp://127.0.0.1:7001 --workers 1000 --rate 20000

It publishes the whole stream each second, as a scheduler does, with difficult names.
"""

from __future__ import annotations

import argparse
import random
import struct
import time
from dataclasses import replace
from typing import Any

from scaler.wire.messages.monitor import (
    BIN_ROW,
    HAS_TASK,
    INITIALIZED,
    PROCESSOR_ROW,
    StateBins,
    StateClient,
    StateEvent,
    StateFailure,
    StateFunction,
    StateGraph,
    StateJob,
    StateMove,
    StateNode,
    StateObject,
    StateProcessors,
    StateTask,
    StateVerdict,
)
from tests.support.monitored import BUSY, Publisher, agent, counts, row, scheduler
from tests.support.monitored import waiting as waiting_for

PLAIN = ("price", "load_curve", "calibrate", "simulate_paths", "shift_surface", "report")
FUNCTIONS = ("price", "load_curve", "calibrate", "<script>alert(1)</script>", "日本語の関数", "f" * 80)
MEANS_US = (41_000, 1_200_000, 9_000_000, 4_000, 700, 250_000)
WORKERS_OF_AN_AGENT = 16


class Cluster:
    def __init__(
        self, publisher: Publisher, workers: int, rate: int, seed: int = 1, functions: tuple[str, ...] = FUNCTIONS
    ) -> None:
        self._functions = functions
        self._out = publisher
        self._random = random.Random(seed)
        self.workers = workers
        self.rate = rate
        self.started = time.time()
        self.success = self.failed = self.canceled = 0
        self._task = 0
        self._runs = [0] * workers
        self._objects = 1204
        self.failures = 0
        self._times = [0, 0, 0]

    def id_of(self, kind: str, number: int) -> bytes:
        return struct.pack("<4sI", kind.encode()[:4].ljust(4), number)

    def agents(self) -> list[tuple[bytes, int, int]]:
        count = -(-self.workers // WORKERS_OF_AN_AGENT)
        return [
            (self.id_of("agnt", n), n * WORKERS_OF_AN_AGENT, min(self.workers, (n + 1) * WORKERS_OF_AN_AGENT))
            for n in range(count)
        ]

    def name_of(self, number: int) -> str:
        return f"rome{number // WORKERS_OF_AN_AGENT + 1:02}:{number % WORKERS_OF_AN_AGENT}"

    def say(self, now: float | None = None) -> None:
        """Publish the items of one second."""
        now = time.time() if now is None else now
        at = int(now * 1e6)
        failed = self._random.randrange(0, max(1, self.rate // 100) + 1) if self.rate else 0
        done = int(self.rate * self._random.uniform(0.9, 1.1))
        self.success += done - failed
        self.failed += failed
        self.canceled += 1 if self.rate and self._random.random() < 0.2 else 0
        self._say_scheduler(at, done)
        self._say_workers(at)
        self._say_functions(at)
        if self.rate:
            self._say_bins(at, done, failed)
            self._say_tasks(at, min(200, done))
            self._say_failures(at, failed)
        self._say_rest(at)

    def _publish(self, topic: str, items: list[Any], at: int, total: int | None = None) -> None:
        if items:
            self._out.say(topic, *items, time_us=at, shown=len(items), total=total or len(items))

    def _say_scheduler(self, at: int, done: int) -> None:
        busy = self.rate > 0
        waiting = self.rate * 120
        ended = {"success": self.success, "failed": self.failed, "canceled": self.canceled}
        total = self.success + self.failed
        full = f"all {self.workers} workers are full; it starts when some of their tasks have ended"
        items = [
            scheduler(
                workers=self.workers,
                agents=len(self.agents()),
                clients=3,
                package_version="0.1.0",
                started_us=int(self.started * 1e6),
                cpu_permille=40 + min(900, done // 25),
                rss_bytes=212 << 20,
                free_bytes=9 << 30,
                lag_us=300 + self._random.randrange(200),
                lag_most_us=900 + self._random.randrange(4000),
                objects=self._objects,
                object_bytes=self._objects << 20,
                waiting=waiting,
                running=self.workers * 2 if busy else 0,
            ),
            *counts(
                ended=ended,
                sent={"RunTask": total, "TaskResult": total, "WorkerHeartbeatEcho": 2210},
                received={"Task": total + waiting, "RunResult": total, "WorkerHeartbeat": 2212},
            ),
            replace(waiting_for(waiting * 9 // 10, places=self.workers, mean_us=MEANS_US[0]), sentence=full),
            waiting_for(waiting // 10, "inputs", places=0),
            StateVerdict(self._word(busy), full, left_us=60_000_000 if busy else 0),
        ]
        self._publish("scheduler", items, at)

    def _word(self, is_busy: bool) -> str:
        if not self.workers:
            return "no workers"
        return "workers" if is_busy else "idle"

    def _say_workers(self, at: int) -> None:
        states = []
        for name, first, last in self.agents():
            rows = []
            for number in range(first, last):
                is_stuck = number == 3
                self._runs[number] += 1
                rows.append(
                    row(
                        cpu=0 if is_stuck or not self.rate else self._random.randrange(700, 1000),
                        sent=2 if self.rate else 0,
                        queued=1 if self.rate else 0,
                        flags=BUSY if self.rate else INITIALIZED,
                        rss=(300 + number % 200) << 20,
                        function=self.id_of("func", number % 3),
                        running_ms=900_000 if is_stuck else self._random.randrange(900),
                        ended=self._runs[number],
                    )
                )
            names = ",".join(self.name_of(number) for number in range(first, last))
            host = f"rome{first // WORKERS_OF_AN_AGENT + 1:02}"
            seen_ms = 12_400 if first == 32 else 120
            rest = {"host": host, "seen_ms": seen_ms, "python_version": "3.11.7", "engine": "processes"}
            states.append(agent(*rows, agent=name, names=names, **rest))
        self._publish("workers", states, at, self.workers)
        processors = []
        for name, first, last in self.agents()[:20]:
            rows = [
                PROCESSOR_ROW.pack(40_000 + n, n - first, INITIALIZED | (HAS_TASK if self.rate else 0), 900, 400,
                                   300 << 20, 800 << 20, self.id_of("task", n), self.id_of("func", n % 3))
                for n in range(first, last)
            ]  # fmt: skip
            processors.append(StateProcessors(name, b"".join(rows)))
        self._publish("processors", processors, at, self.workers)

    def _say_functions(self, at: int) -> None:
        states = []
        for number, (name, mean) in enumerate(zip(self._functions, MEANS_US, strict=True)):
            buckets = [0] * 32
            middle = mean.bit_length()
            for offset, share in ((-2, 0.02), (-1, 0.2), (0, 0.6), (1, 0.15), (3, 0.03)):
                buckets[max(0, min(31, middle + offset))] = int(self.success * share / 6)
            waiting = self.rate * (100 - number * 15) if self.rate else 0
            states.append(
                StateFunction(self.id_of("func", number), name, max(0, waiting), 20 if self.rate else 0,
                              self.success // 6, 0 if number else self.failed, self.canceled if number == 1 else 0,
                              sum(buckets), sum(buckets) * mean, mean // 4, mean * 8, struct.pack("<32I", *buckets),
                              ("no room", "inputs")[number % 2] if waiting else "")
            )  # fmt: skip
        self._publish("functions", states, at)

    def _say_bins(self, at: int, done: int, failed: int) -> None:
        states = []
        each = max(1, done // max(1, self.workers))
        for name, first, last in self.agents():
            rows = []
            for number in range(first, last):
                if number == 3 or self._random.random() < 0.04:
                    continue
                has_failed = failed and self._random.random() < failed / self.workers / 2
                rows.append(
                    BIN_ROW.pack(number - first, self._random.randrange(600, 1001), each, int(has_failed),
                                 int(self._random.random() < 0.002), 0, self.id_of("func", number % 3))
                )  # fmt: skip
            states.append(StateBins(name, b"".join(rows)))
        self._publish("bins", states, at)

    def _say_tasks(self, at: int, count: int) -> None:
        tasks = []
        for _ in range(count):
            self._task += 1
            number = self._random.randrange(3)
            state = self._random.choices(("success", "failed", "canceled"), (95, 4, 1))[0]
            duration = int(MEANS_US[number] * self._random.uniform(0.5, 2))
            kind = self._random.randrange(len(self._functions))
            name = self._functions[kind]
            reason = "ValueError: bad strike -1.5 of <b>ACME</b>" if state == "failed" else ""
            tasks.append(
                StateTask(self.id_of("task", self._task), name, self.id_of("func", kind), name,
                          b"client01", b"", state, self.name_of(self._random.randrange(self.workers)), 1,
                          at - duration - 900_000, at - duration, at, duration, duration * 9 // 10, 412 << 20, reason)
            )  # fmt: skip
        self._publish("tasks", tasks, at, self.success)
        watched = [topic for topic, n in self._out.topics.items() if topic.startswith("task/") and n > 0]
        for topic in watched:
            short = bytes.fromhex(topic.partition("/")[2])
            self._publish(topic, [StateMove(short, at, "assigned to a worker", "running", "rome01:1", 1, "")], at)

    def _say_failures(self, at: int, failed: int) -> None:
        if not failed:
            return
        kinds = (("ValueError", "bad strike -1.5 of <b>ACME</b>"), ("KeyError", "'2031-02-30'"),
                 ("worker died", "the worker process ended with signal 9"))  # fmt: skip
        n = self._random.randrange(3)
        self._times[n] += failed
        trace = (
            'Traceback (most recent call last):\n  File "/home/q/prices.py", line 41, in price\n    v = surface[day]\n'
            f"{kinds[n][0]}: {kinds[n][1]}"
        )
        failure = StateFailure(self.id_of("fail", n), *kinds[n], self.id_of("func", 0), self._functions[0],
                               self._times[n], int(self.started * 1e6), at, self.id_of("task", self._task),
                               self.name_of(n), trace if n < 2 else "")  # fmt: skip
        self._publish("failures", [failure], at, 3)

    def _say_rest(self, at: int) -> None:
        self._publish(
            "clients",
            [
                StateClient(
                    b"client01",
                    "prices.py 4711, quant@ws14",
                    b"client01",
                    0,
                    self.rate * 119,
                    self.rate * 119,
                    200,
                    "alice",
                ),
                StateClient(b"client02", "nightly.py 812, batch@ws2", b"client02", 0, self.rate // 2, 0, 300, "batch"),
                StateClient(b"client03", "web-7 <img src=x onerror=alert(1)>", b"client03", 1, 7, 0, 9000),
            ],
            at,
        )
        done = self.success // 50
        graphs = [
            StateGraph(b"graph001", "risk", b"client01", 60, max(0, 40 - done), min(10, done), min(50, done), 1, 2,
                       int(self.started * 1e6), 0),
            StateGraph(b"graph002", "", b"client02", 9000, 8000, 500, 500, 0, 0, int(self.started * 1e6), 0),
        ]  # fmt: skip
        self._publish("graphs", graphs if self.rate else [], at)
        for topic in [topic for topic, n in self._out.topics.items() if topic.startswith("graph/") and n > 0]:
            self._publish(topic, self._nodes(bytes.fromhex(topic[6:])), at)
        objects = [
            StateObject(self.id_of("objt", n), f"surface-{n}", b"client01", (64 >> n) << 20, 3, 12) for n in range(6)
        ]
        self._publish("objects", objects, at, self._objects)
        jobs = [
            StateJob(b"job00001", "prices-23", "alice", "prices.py", "price", "open", "", 1, 10**9, 100 * done, 3,
                     8192, 64, 48 << 20, at - 3600 * 10**6, at,
                     "row 3: ValueError: bad strike\nrow 9: ValueError: bad strike"),
            StateJob(b"job00002", "<img src=x onerror=alert(1)>", "batch", "nightly.py", "load", "open", "", 0, 4096),
            StateJob(b"job00003", "q3", "alice", "q3.py", "sum", "stopped",
                     "5 of 9 ended rows failed; max_failures is 4", 1, 10, 4, 5, 0, 0, 1 << 16, at - 9, at,
                     "row 0: OSError: no such file"),
        ]  # fmt: skip
        self._publish("jobs", jobs, at)
        if self._random.random() < 0.05:
            event = StateEvent(at, self._random.choice(("came", "cut", "back")), "rome03", "its connection was lost")
            self._publish("events", [event], at)

    def _nodes(self, graph: bytes) -> list[StateNode]:
        nodes = []
        for position in range(60):
            inputs = [n for n in (position - 7, position - 5) if n >= 0 and position > 6]
            state = ("success", "success", "running", "waiting", "failed")[min(4, position // 14)]
            nodes.append(StateNode(graph, position, self.id_of("node", position), self._functions[position % 3],
                                   struct.pack(f"<{len(inputs)}I", *inputs), state, 41_000))  # fmt: skip
        return nodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rate", type=int, default=385)
    parser.add_argument("--plain", action="store_true", help="no names that hurt")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    publisher = Publisher(given.address)
    cluster = Cluster(publisher, given.workers, given.rate, functions=PLAIN if given.plain else FUNCTIONS)
    end = time.monotonic() + given.seconds
    at = time.monotonic()
    while at < end:
        publisher.look()
        cluster.say()
        at += 1
        time.sleep(max(0.0, at - time.monotonic()))
    publisher.close()


if __name__ == "__main__":
    main()
