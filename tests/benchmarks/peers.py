"""What a peer costs the scheduler that comes, returns, is lost or leaves, however many others there are.

All actors, the codec and the edge, without sockets, as in `scheduler_core.py`. Half of the peers are clients, the
others are agents with one worker. All say hello; then each says hello again on another connection; then half of them
lose their connection and come back; then all leave.

    python tests/benchmarks/peers.py                   microseconds per peer, best of several
    python tests/benchmarks/peers.py --peers 500 1000
"""

from __future__ import annotations

import argparse
import gc
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from scaler.actors.tree import SchedulerTree
from scaler.ids import Connection, SchedulerId
from scaler.kit import Dispatcher
from scaler.process.shell import GARBAGE_THRESHOLDS
from scaler.scheduler.edge import SchedulerEdge
from scaler.transport.interface import PeerGoneError
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import ClientDisconnect, ClientHello, GoodbyeKind
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER
from scaler.wire.messages.worker import DisconnectRequest, WorkerHello
from scaler.wire.session.pipe import Pipe
from tests.benchmarks.scheduler_core import Wire
from tests.support.configs import scheduler_config

PEERS = (500, 1_000, 2_000, 4_000, 8_000)


class LossyWire(Wire):
    """A socket whose connections can be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[Connection] = set()

    def send(self, connection: Connection, header: bytes, frames: Any) -> None:
        if connection in self.lost:
            raise PeerGoneError("no such connection")
        super().send(connection, header, frames)

    def forget(self, connection: Connection) -> None:
        """The connection of a stranger is gone."""


class Run:
    """So many peers.

    Args:
        count: how many, half of them clients.
    """

    def __init__(self, count: int) -> None:
        self.numbers = range(count)
        self.visits = [0] * count
        self.dispatcher = Dispatcher(time.monotonic)
        self.tree = SchedulerTree(
            self.dispatcher, SchedulerId(bytes(16)), "0", scheduler_config(), lambda: None, RunOptions.decode, Pipe
        )
        self.wire = LossyWire()
        self.edge = SchedulerEdge(self.wire, self.tree)  # type: ignore[arg-type]

    def connection(self, number: int) -> Connection:
        return Connection(b"%d/%d" % (number, self.visits[number]))

    def say_hello(self, number: int) -> None:
        self.visits[number] += 1
        own = (PROTOCOL_VERSION, "0", "3.11.7", "3", number.to_bytes(16, "big"))
        if number % 2:
            self.wire.say(self.connection(number), CLIENT_TO_SCHEDULER, [ClientHello(*own)])
        else:
            self.wire.say(self.connection(number), AGENT_TO_SCHEDULER, [WorkerHello(*own, f"worker {number}", b"")])

    def say_goodbye(self, number: int) -> None:
        if number % 2:
            self.wire.say(self.connection(number), CLIENT_TO_SCHEDULER, [ClientDisconnect(GoodbyeKind.DISCONNECT)])
        else:
            self.wire.say(self.connection(number), AGENT_TO_SCHEDULER, [DisconnectRequest("done")])

    def lose(self, number: int) -> None:
        self.wire.lost.add(self.connection(number))
        self.edge.probe([self.connection(number)])

    def of_each(self, what: Callable[[int], None], numbers: Iterable[int]) -> float:
        """Do something to each peer, one after the other. Returns microseconds each."""
        count = 0
        start = time.process_time()
        for number in numbers:
            what(number)
            while self.edge.receive() | (not self.dispatcher.run(flush=self.edge.flush)):
                pass
            count += 1
        seconds = time.process_time() - start
        self.wire.sent.clear()
        return seconds / count * 1e6

    def figures(self) -> tuple[float, float, float, float]:
        """Return microseconds of a hello, a hello on another connection, a lost connection, a goodbye."""
        hello = self.of_each(self.say_hello, self.numbers)
        again = self.of_each(self.say_hello, self.numbers)
        half = self.numbers[: len(self.numbers) // 2]
        lost = self.of_each(self.lose, half)
        if len(self.tree.directory.connected) != len(self.numbers) - len(half):
            raise RuntimeError("a lost connection was not noticed")
        self.of_each(self.say_hello, half)
        goodbye = self.of_each(self.say_goodbye, self.numbers)
        if self.tree.directory.peers or self.tree.directory.connected:
            raise RuntimeError("a peer that left is still known")
        return hello, again, lost, goodbye


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, nargs="+", default=PEERS, help="how many (default: 500 to 8,000)")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    print("| peers | hello | hello on another connection | connection lost | goodbye |")
    print("|--:|--:|--:|--:|--:|")
    for count in options.peers:
        figures = [min(each) for each in zip(*(Run(count).figures() for _ in range(options.repeats)), strict=True)]
        print(f"| {count:,} | " + " | ".join(f"{microseconds:.0f}" for microseconds in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
