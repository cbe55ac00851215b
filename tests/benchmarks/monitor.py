"""What the monitor stream costs the scheduler: its processor time per task, while a viewer of all comes and goes.

A real scheduler in a process of its own; agents with real sockets, which answer each run at once and report when they
are asked, as real ones do; and a client with a real socket that keeps a rate. All peers are in this process. Of the
scheduler all threads count.

    python -m tests.benchmarks.monitor                     5,000 workers behind 50 agents, 20,000 tasks a second
    python -m tests.benchmarks.monitor --viewers 2         scaler_top, and one scaler_ui for any number of browsers
    python -m tests.benchmarks.monitor --rate 5000 --blocks 21
    python -m tests.benchmarks.monitor --screens --agents 1 --workers 7 --rate 10000   a page on Live, two scaler_top

It takes some five minutes: one load, in which every second block of two seconds is watched. The same work may take half
as long again from one minute to the next, so each block is compared with the two beside it. If there are fewer tasks a
second than were asked for, the peers had not enough of the processor, and the figures are worth nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import statistics
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import zmq

from scaler import Scheduler
from scaler.actors.monitor.topics import TOPICS
from scaler.endpoint import Endpoint
from scaler.ids import NO_ID, ObjectId, TaskId, content_id, public_id
from scaler.monitor.top.program import TOPICS as TOP_TOPICS
from scaler.monitor.ui.feed import ALWAYS as PAGE_TOPICS
from scaler.transport.opening import open_transport
from scaler.wire.messages.client import ClientHeartbeat, ClientHello, Task, TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import PROTOCOL_VERSION, HelloReply, InstructionKind, ObjectInstruction
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
)
from scaler.wire.messages.monitor import (
    BIN_ROW,
    FUNCTION_ROW,
    HAS_TASK,
    INITIALIZED,
    PROCESSOR_ROW,
    RUN_ROW,
    WORKER_ROW,
)
from scaler.wire.messages.worker import AgentState, RunResult, RunTask, WatchRequest, WorkerHeartbeat, WorkerHello
from scaler.wire.session.dialling import DialledSession
from tests.benchmarks._alternated import Block, effect

CODE = b"the function"
FUNCTION = content_id([CODE])
SETTLE_SECONDS = 1.0
"""After a viewer has come or gone, before the next block."""
VERSIONS = (PROTOCOL_VERSION, "0", "3.11.7", "3")


class Peer:
    """One dialling side of a session, on one connection."""

    def __init__(self, transport: Any, incoming: Any, outgoing: Any) -> None:
        self.socket = transport.dial()
        self.session = DialledSession(incoming, outgoing)
        self.is_up = False
        self.messages = 0
        """sent and received"""

    def greet(self, hello: Any) -> None:
        self.socket.send(*self.session.hello(hello))

    def receive(self) -> list[Batch[Any]]:
        batches: list[Batch[Any]] = []
        while (message := self.socket.receive()) is not None:
            self.messages += 1
            for batch in self.session.pipe.receive(*message):
                if type(batch) is Batch[HelloReply]:
                    assert batch[0].accepted, batch[0].reason
                    self.session.begin()
                    self.is_up = True
                else:
                    batches.append(batch)
        return batches

    def say(self, items: Sequence[Any]) -> None:
        self.session.pipe.put_all(items)
        self.flush()

    def say_alone(self, item: Any) -> None:
        self.socket.send(*self.session.pipe.unnumbered([item]))

    def flush(self) -> None:
        if self.is_up and self.session.pipe.is_ready:
            for header, frames in self.session.pipe.take():
                self.messages += 1
                self.socket.send(header, frames)


class BenchAgent(Peer):
    """An agent that answers at once, and reports rows of the right size."""

    def __init__(self, transport: Any, number: int, workers: int) -> None:
        super().__init__(transport, SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER)
        names = ",".join(f"node{number}-{worker}" for worker in range(workers))
        self.workers = workers
        self.greet(WorkerHello(*VERSIONS, os.urandom(16), names, b"", os.urandom(16)))
        self.interval_seconds, self.next_report = 0.0, 0.0
        self.ended = 0
        self.asked: list[TaskId] = []

    def work(self, now: float) -> None:
        for batch in self.receive():
            if type(batch) is Batch[RunTask]:
                self.ended += len(batch)
                self.asked = [batch[0].task_id]
                self.session.pipe.put_all(
                    [RunResult(run.task_id, run.worker, run.attempt, 0, b"", 50, ()) for run in batch]
                )
            elif type(batch) is Batch[WatchRequest]:
                self.interval_seconds = batch[-1].interval_ms / 1000
                self.next_report = now
        self.flush()
        if self.interval_seconds and now >= self.next_report:
            self.next_report = now + self.interval_seconds
            self.say_alone(self.report())

    def report(self) -> AgentState:
        short, ended, self.ended = public_id(FUNCTION), self.ended, 0
        flags = INITIALIZED | HAS_TASK
        buckets = [0] * 32
        buckets[6] = ended
        runs = [RUN_ROW.pack(task_id, 0, flags, 1000, short) for task_id in self.asked]
        return AgentState(
            "host",
            "processes",
            4711,
            100,
            2**28,
            2**33,
            700,
            WORKER_ROW.pack(990, 3, 2, 0, flags, 2**28, short, 5, ended) * self.workers,
            PROCESSOR_ROW.pack(4711, 0, flags, 990, 5, 2**28, 2**28, short, short) * self.workers,
            b"".join(BIN_ROW.pack(worker, 1, ended // self.workers, 0, 0, 0, short) for worker in range(self.workers)),
            FUNCTION_ROW.pack(short, 3, 50 * ended, 50 * bool(ended), 50 * bool(ended), *buckets),
            b"".join(runs),
        )


class BenchClient(Peer):
    """Keeps a rate of tasks; with a rate of 0, so many tasks open."""

    OPEN_TASKS = 10_000

    def __init__(self, transport: Any, rate: int) -> None:
        super().__init__(transport, SCHEDULER_TO_CLIENT, CLIENT_TO_SCHEDULER)
        self.greet(ClientHello(*VERSIONS, os.urandom(16), NO_ID, 0))
        self.rate = rate
        self.done = self.submitted = 0
        self.began = 0.0

    def start(self, now: float) -> None:
        self.say([ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(FUNCTION), "price", (CODE,))])
        self.began = now

    def work(self, now: float) -> None:
        for batch in self.receive():
            if type(batch) is Batch[TaskResult]:
                self.done += len(batch)
        wanted = 0
        if self.began:
            wanted = int((now - self.began) * self.rate) if self.rate else self.done + self.OPEN_TASKS
        most_open = 2 * self.rate or self.OPEN_TASKS
        room = min(wanted - self.submitted, most_open - (self.submitted - self.done), 1000)
        if room >= 100:
            made = os.urandom(16 * room)
            ids = [TaskId(made[at : at + 16]) for at in range(0, len(made), 16)]
            self.session.pipe.put_all([Task(task_id, ObjectId(FUNCTION), b"", b"") for task_id in ids])
            self.submitted += room
        self.flush()


class Bench:
    """All peers of one scheduler, and a viewer that comes and goes."""

    def __init__(self, scheduler: Scheduler, agents: int, workers: int, rate: int) -> None:
        self._transport = open_transport(Endpoint.parse(scheduler.get_address()))
        assert scheduler.pid is not None
        self._threads = Path(f"/proc/{scheduler.pid}/task")
        self.monitor_address = scheduler.get_monitor_address()
        self._agents = [BenchAgent(self._transport, number, workers) for number in range(agents)]
        self._client = BenchClient(self._transport, rate)
        self._peers: list[BenchAgent | BenchClient] = [*self._agents, self._client]
        self._selector = selectors.DefaultSelector()
        for peer in self._peers:
            self._selector.register(peer.socket.descriptor, selectors.EVENT_READ, peer)
        self._beat_at = 0.0
        self._viewers: list[zmq.Socket[bytes]] = []
        self.seen = 0
        while not all(peer.is_up for peer in self._peers):
            self.run(0.1)
        self._client.start(time.monotonic())

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self._selector.select(0.002)
            for peer in self._peers:
                peer.work(now)
            if now >= self._beat_at:
                self._beat_at = now + 1.0
                self._beat()
            for viewer in self._viewers:
                while viewer.poll(0):
                    self.seen += sum(map(len, viewer.recv_multipart()))

    def _beat(self) -> None:
        for agent in self._agents:
            agent.say_alone(WorkerHeartbeat(1))
        self._client.say_alone(ClientHeartbeat(1))

    def watch(self, viewers: Sequence[Collection[str]]) -> None:
        while self._viewers:
            self._viewers.pop().close(linger=0)
        for topics in viewers:
            viewer = zmq.Context.instance().socket(zmq.SUB)
            viewer.connect(self.monitor_address)
            for topic in topics:
                viewer.setsockopt(zmq.SUBSCRIBE, topic.encode())
            self._viewers.append(viewer)

    def measure(self, seconds: float, viewers: Sequence[Collection[str]] = ()) -> Block:
        """Return what the next seconds take with these viewers, each of which has these topics."""
        self.watch(viewers)
        self.run(SETTLE_SECONDS)
        before, done, messages, began = self._cpu_ns(), self._client.done, self._messages(), time.monotonic()
        self.run(seconds)
        tasks = self._client.done - done
        us, passed = (self._cpu_ns() - before) / 1000, time.monotonic() - began
        return Block(us / tasks, (self._messages() - messages) / tasks, tasks / passed)

    def _messages(self) -> int:
        return sum(peer.messages for peer in self._peers)

    def _cpu_ns(self) -> int:
        """The processor time of all threads of the scheduler; `times()` counts it in steps of 10 ms only."""
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in self._threads.iterdir())


def parser_of(text: str | None, *, workers: int, rate: int, blocks: int, seconds: float) -> argparse.ArgumentParser:
    """Return the parser of a program that measures in blocks, with these defaults."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--workers", type=int, default=workers, help=f"of each agent (default: {workers})")
    shown = f"{rate:,}" if rate else "as many as can be done"
    parser.add_argument("--rate", type=int, default=rate, help=f"tasks per second (default: {shown})")
    parser.add_argument("--blocks", type=int, default=blocks, help=f"(default: {blocks})")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"of each block (default: {seconds:g})")
    return parser


@contextlib.contextmanager
def running(options: argparse.Namespace, settle_seconds: float) -> Iterator[Bench]:
    """A scheduler and its peers, which have worked for some time."""
    usual = {"logging_level": "CRITICAL", "event_loop": "builtin"}
    scheduler = Scheduler("tcp://127.0.0.1:*", insecure_let_everybody_run_code=True, **usual)
    scheduler.start()
    try:
        bench = Bench(scheduler, options.agents, options.workers, options.rate)
        bench.measure(settle_seconds)
        yield bench
    finally:
        scheduler.shutdown()


def main() -> None:
    parser = parser_of(__doc__, workers=100, rate=20_000, blocks=101, seconds=2.0)
    parser.add_argument("--viewers", type=int, default=1, help="who watch in every second block (default: 1)")
    parser.add_argument("--screens", action="store_true", help="watched by a page on Live and two scaler_top instead")
    options = parser.parse_args()
    viewers = [PAGE_TOPICS, TOP_TOPICS, TOP_TOPICS] if options.screens else [tuple(TOPICS)] * options.viewers
    with running(options, 10.0) as bench:
        blocks = [bench.measure(options.seconds, viewers if number % 2 else ()) for number in range(options.blocks)]
    print("| | us of processor time per task: median | least | most | messages per task | tasks per second |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, each in (("nobody watches", blocks[::2]), (f"watched by {len(viewers)}", blocks[1::2])):
        us, messages, rates = zip(*each, strict=True)
        shown = f"{statistics.median(us):.2f} | {min(us):.2f} | {max(us):.2f}"
        print(f"| {name} | {shown} | {statistics.median(messages):.4f} | {statistics.median(rates):,.0f} |")
    print()
    for text, with_messages in (("watched", False), ("the same with as many messages", True)):
        print(f"{text}: {effect(blocks, with_messages)} per task")
    watched = (options.blocks // 2) * (options.seconds + SETTLE_SECONDS) * len(viewers)
    print(f"{bench.seen / watched / 1000:,.0f} kB per second to each viewer")


if __name__ == "__main__":
    main()
