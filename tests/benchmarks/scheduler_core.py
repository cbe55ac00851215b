"""What one task costs in the scheduler: all actors, the codec and the edge, without sockets.

A stand-in for the socket hands the edge messages of one client and one agent with two workers, as they are under a map
of no-op tasks, and takes what it sends. Only the time inside the scheduler's turns counts.

    python tests/benchmarks/scheduler_core.py              microseconds per task, best of several
    python tests/benchmarks/scheduler_core.py --listen all the same with an actor that listens to all moves of tasks
    python tests/benchmarks/scheduler_core.py --profile    where they are spent, by module
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time
from collections import deque
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from scaler.actors.tree import SchedulerTree
from scaler.actors.vocabulary.events import EVERY_TASK, PeerJoined, TaskMoved
from scaler.ids import Connection, ObjectId, SchedulerId, TaskId
from scaler.kit import Actor, Dispatcher, handles
from scaler.process.shell import GARBAGE_THRESHOLDS
from scaler.scheduler.edge import SchedulerEdge
from scaler.settings import SchedulerConfig
from scaler.wire.codec.codec import decode, encode
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import ClientHello, Task, TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.worker import RunResult, RunTask, WorkerHello
from scaler.wire.session.pipe import Pipe
from tests.support.configs import scheduler_config

CLIENT, AGENT = Connection(b"client"), Connection(b"agent")
WINDOW, SUBMIT_BATCH, RESULT_BATCH = 10_000, 1000, 256


class Wire:
    """In place of the ROUTER socket."""

    def __init__(self) -> None:
        self.to_scheduler: deque[tuple[Connection, bytes, list[memoryview]]] = deque()
        self.sent: list[tuple[Connection, bytes, Sequence[Any]]] = []

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        return self.to_scheduler.popleft() if self.to_scheduler else None

    def send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        self.sent.append((connection, header, frames))

    def user_of(self, _connection: Connection) -> str:
        return ""

    def look(self, _resident_bytes: int) -> int:
        return 0

    def say(self, connection: Connection, direction: Direction, items: list[Any]) -> None:
        for header, _ in encode(direction, items):
            self.to_scheduler.append((connection, header, []))


class Listener(Actor):
    """Counts moves of tasks by their event."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    @handles(TaskMoved)
    def _moved(self, moved: TaskMoved) -> None:
        self.counts[moved.event] = self.counts.get(moved.event, 0) + 1

    @handles(PeerJoined)
    def _came(self, _came: PeerJoined) -> None:
        pass


class Run:
    """A map of so many tasks, or one for each client, in equal parts.

    Args:
        listen: to which events somebody listens: "none", "unusual" ones (of which there are none), or "all".
        result_bytes: the size of each result.
    """

    def __init__(
        self,
        count: int,
        listen: str = "none",
        workers: int = 2,
        clients: int = 1,
        limits: SchedulerConfig | None = None,
        result_bytes: int = 10,
    ) -> None:
        self.count = count
        self.result = b"y" * result_bytes
        self.clients = [Connection(CLIENT + b"%d" % number) for number in range(clients)]
        self.dispatcher = Dispatcher(time.monotonic)
        tree = SchedulerTree(
            self.dispatcher,
            SchedulerId(bytes(16)),
            "0",
            limits or scheduler_config(),
            lambda: None,
            RunOptions.decode,
            Pipe,
        )
        if listen != "none":
            tree.events.listen(self.dispatcher.spawn(Listener()), EVERY_TASK if listen == "all" else None)
        self.wire = Wire()
        self.edge = SchedulerEdge(self.wire, tree)  # type: ignore[arg-type]
        self.seconds = 0.0
        hello = (PROTOCOL_VERSION, "0", "3", "3")
        for client in self.clients:
            self.wire.say(client, CLIENT_TO_SCHEDULER, [ClientHello(*hello, client.ljust(16))])
        names = ",".join(map(str, range(workers)))
        self.wire.say(AGENT, AGENT_TO_SCHEDULER, [WorkerHello(*hello, b"a" * 16, names, b"")])
        self.turn()
        self.wire.sent.clear()

    def turn(self) -> None:
        start = time.perf_counter()
        while self.edge.receive() | (not self.dispatcher.run(flush=self.edge.flush)):
            pass
        self.seconds += time.perf_counter() - start

    def run(self) -> float:
        """Return the scheduler's microseconds per task."""
        self.seconds, submitted, done = 0.0, 0, 0
        function_id = ObjectId(b"f" * 16)
        at_once, clients = min(SUBMIT_BATCH, WINDOW // len(self.clients)), cycle(self.clients)
        while done < self.count:
            goal = min(self.count, done + WINDOW)
            while submitted < goal:
                batch = range(submitted, min(goal, submitted + at_once))
                tasks = [Task(TaskId(i.to_bytes(16, "big")), function_id, b"x" * 30, b"") for i in batch]
                self.wire.say(next(clients), CLIENT_TO_SCHEDULER, tasks)
                submitted += len(tasks)
            self.turn()
            done += self._answer()
        return self.seconds / self.count * 1e6

    def _answer(self) -> int:
        """Be the agent and the client. Returns how many results the client got."""
        sent, self.wire.sent = self.wire.sent, []
        finished, got = [], 0
        for connection, header, frames in sent:
            for batch in decode(SCHEDULER_TO_AGENT if connection == AGENT else SCHEDULER_TO_CLIENT, header, frames):
                if isinstance(batch, Batch[RunTask]):
                    finished += [
                        RunResult(run.task_id, run.worker, run.attempt, 0, self.result, 2, ()) for run in batch
                    ]
                elif isinstance(batch, Batch[TaskResult]):
                    got += len(batch)
        for start in range(0, len(finished), RESULT_BATCH):
            self.wire.say(AGENT, AGENT_TO_SCHEDULER, finished[start : start + RESULT_BATCH])
        return got


def profile(count: int) -> None:
    """Print the share of each module in the scheduler's own time."""
    run, profiler = Run(count), cProfile.Profile()
    turn = run.turn

    def profiled_turn() -> None:
        profiler.enable()
        turn()
        profiler.disable()

    run.turn = profiled_turn  # type: ignore[method-assign]
    run.run()
    shares: dict[str, float] = {}
    calls: dict[str, int] = {}
    for (file, _, _), (_, number, own, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        path = Path(file)
        name = "/".join(path.parts[path.parts.index("scaler") :][1:]) if "scaler" in path.parts else "builtins"
        shares[name] = shares.get(name, 0.0) + own
        calls[name] = calls.get(name, 0) + number
    total = sum(shares.values())
    print(f"{'module':32} {'share':>6} {'calls per task':>15}")
    for name, seconds in sorted(shares.items(), key=lambda share: -share[1]):
        if seconds > 0.004 * total:
            print(f"{name:32} {seconds / total:6.1%} {calls[name] / count:15.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--listen", choices=("none", "unusual", "all"), default="none", help="events (default: none)")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    if options.profile:
        profile(options.tasks)
    else:
        figures = sorted(Run(options.tasks, options.listen).run() for _ in range(options.repeats))
        print(f"{figures[0]:.2f} us per task (best of {len(figures)}; median {figures[len(figures) // 2]:.2f})")


if __name__ == "__main__":
    main()
