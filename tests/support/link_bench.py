"""A link on a virtual clock, between recorders: without a socket, workers and a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.agent.link import AgentLink
from scaler.agent.messages import LinkLost
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.kit import ActorRef, Dispatcher
from scaler.peer.times import PAUSE_MOST_SECONDS
from scaler.settings import ClusterConfig
from scaler.wire.codec.codec import decode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    HelloReply,
    TaskStatus,
)
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
from scaler.wire.messages.worker import (
    HELD_RUN,
    RunResult,
    RunTask,
    WorkerHello,
)
from scaler.wire.session.dialling import DialledSession
from tests.support.recorder import Recorder
from tests.support.virtual_clock import VirtualClock

FUNCTION = ObjectId(b"f" * 16)
SCHEDULER, NEXT_SCHEDULER = b"s" * 16, b"t" * 16
NEST_ID = b"n" * 16


class RecordingDoor:
    """Keeps items until a session exists, as the edge does."""

    def __init__(self) -> None:
        self.connections = 0
        self.set_aside_count = 0
        self.session = DialledSession(SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER)
        self.is_up = False
        self._alone: list[Any] = []
        self._unsent: list[Any] = []

    def connect(self, link: ActorRef) -> None:
        self.hang_up()
        self.connections += 1

    def hang_up(self) -> None:
        self.is_up = False
        self._alone.clear()

    def set_aside(self) -> None:
        self.set_aside_count += 1
        self.hang_up()

    def send_hello(self, hello: WorkerHello) -> None:
        header, _ = self.session.hello(hello)
        for batch in decode(AGENT_TO_SCHEDULER, header, []):
            self._alone.extend(batch)

    def send_unnumbered(self, item: Any) -> None:
        self._alone.append(item)

    def send(self, items: Sequence[Any]) -> None:
        self._unsent.extend(items)

    def resume(self, _heard: int) -> None:
        self.is_up = True

    def begin(self) -> None:
        self.session.begin()
        self._unsent.clear()
        self.is_up = True

    def take(self) -> list[Any]:
        """Return the items that were sent since the last call."""
        alone, self._alone = self._alone, []
        items_sent: list[Any] = []
        if self.is_up:
            items_sent, self._unsent = self._unsent, []
        return alone + items_sent


class Bench:
    def __init__(self, address: str = "tcp://127.0.0.1:1", death_timeout_seconds: float = 30, **abilities: Any) -> None:
        self.clock = VirtualClock(1000.0)
        self.dispatcher = Dispatcher(self.clock)
        self.door = RecordingDoor()
        self.workers = (Recorder(), Recorder())
        self.objects = Recorder()
        self.ends: list[int] = []
        self.new_id = IdSource()
        self.actor = AgentLink(
            self.door,
            config=ClusterConfig(address, 2, death_timeout_seconds=death_timeout_seconds),
            names=("a", "b"),
            workers=tuple(self.dispatcher.spawn(slot) for slot in self.workers),
            objects=self.dispatcher.spawn(self.objects),
            agent_token=NEST_ID,
            end=self.ends.append,
            **abilities,
        )
        self.link = self.dispatcher.spawn(self.actor)

    def tell(self, *messages: Any) -> None:
        for message in messages:
            self.link.send(message)
        assert self.dispatcher.run()
        assert self.dispatcher.failures == 0

    def wait(self, seconds: float) -> None:
        """Advance the clock, in steps that are shorter than any timer."""
        end = self.clock() + seconds
        while self.clock() < end:
            self.clock.advance(min(0.05, end - self.clock()))
            assert self.dispatcher.run()

    def welcome(self, scheduler_id: bytes = SCHEDULER, resumed: int = 0) -> None:
        self.tell(Batch[HelloReply]([HelloReply(1, "", scheduler_id, 1, "0", resumed)]))

    def up(self) -> Bench:
        self.welcome()
        self.door.take()
        return self

    def reconnect(self, scheduler_id: bytes = SCHEDULER) -> WorkerHello:
        self.tell(LinkLost("cut"))
        self.wait(PAUSE_MOST_SECONDS)
        [hello] = self.door.take()
        self.welcome(scheduler_id)
        assert isinstance(hello, WorkerHello)
        return hello

    def task(self, worker: int = 0, attempt: int = 1) -> RunTask:
        return RunTask(TaskId(self.new_id()), worker, attempt, FUNCTION, b"", b"")

    def finish(self, *tasks: RunTask) -> list[RunResult]:
        results = [RunResult(t.task_id, t.worker, t.attempt, TaskStatus.SUCCESS, b"", 0, ()) for t in tasks]
        self.tell(Batch[RunResult](results))
        return results


def held(*tasks: RunTask) -> bytes:
    return b"".join(HELD_RUN.pack(task.task_id, task.attempt, task.worker, task.rows) for task in tasks)
