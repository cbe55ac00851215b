"""A scheduler reduced to its side of the agents' protocol: a real ROUTER socket, driven by a test.

Its replies (to agents, heartbeats, requests, results) can be switched off one by one. It records everything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import zmq

from scaler.endpoint import Endpoint
from scaler.errors import ProtocolError
from scaler.ids import Connection, IdSource, ObjectId, TaskId, content_id, random_id
from scaler.pickling.serialization import (
    OBJECT,
    VALUE,
    DefaultSerializer,
    Serializer,
    argument_block,
    from_frames,
    function_to_frames,
    to_frames,
)
from scaler.settings import ClusterConfig
from scaler.shared_memory import frames_at
from scaler.transport.interface import PeerGoneError
from scaler.transport.sockets import RouterSocket
from scaler.wire.codec.codec import with_heard
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.common import HelloReply, HelloRequest, ObjectRequest, ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
from scaler.wire.messages.worker import (
    DisconnectRequest,
    DisconnectResponse,
    RunResult,
    RunTask,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkerHello,
)
from scaler.wire.session.pipe import Message, Pipe

DEFAULT = DefaultSerializer()
_NOT_COUNTED = (HelloReply, HelloRequest, WorkerHeartbeatEcho)


class FakeScheduler:
    """A scheduler that listens at `address`. It acts only within `until` and `poll`."""

    def __init__(self, address: str, scheduler_id: bytes | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = RouterSocket(self._context, Endpoint.parse(address))
        self.address = self._router.endpoint.address
        self.scheduler_id = scheduler_id or random_id()
        self.welcomes = True
        self.acknowledges = True
        self.echoes = True
        self.lets_go = True
        self.objects: dict[ObjectId, Sequence[Any]] = {}
        self.connection: Connection | None = None
        self.hellos: list[WorkerHello] = []
        self.results: list[RunResult] = []
        self.requests: list[ObjectId] = []
        self.heartbeats: list[WorkerHeartbeat] = []
        self.goodbyes: list[str] = []
        self.undecodable = 0
        self._pipes: dict[Connection, Pipe] = {}
        self._ids = IdSource()

    def __enter__(self) -> FakeScheduler:  # noqa: PYI034
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._router.close()
        self._context.term()

    # What a test sends

    def function(self, function: Callable[..., Any], serializer: Serializer = DEFAULT) -> ObjectId:
        frames = function_to_frames(serializer, function)
        object_id = content_id(frames)
        self.objects[object_id] = frames
        return object_id

    def store(self, value: Any, serializer: Serializer = DEFAULT) -> ObjectId:
        object_id = ObjectId(self._ids())
        self.objects[object_id] = to_frames(serializer, value)
        return object_id

    def task(self, function_id: ObjectId, *arguments: Any, worker: int = 0, attempt: int = 1) -> RunTask:
        """Return a task; an argument that is the id of a stored object stands for the object."""
        blocks, object_ids = [], []
        for argument in arguments:
            if type(argument) is bytes and argument in self.objects:
                blocks.append(argument_block(OBJECT, argument))
                object_ids.append(argument)
            else:
                blocks.append(argument_block(VALUE, bytes(to_frames(DEFAULT, argument)[0])))
        return RunTask(TaskId(self._ids()), worker, attempt, function_id, b"".join(blocks), b"".join(object_ids))

    def send(self, items: Iterable[Any]) -> None:
        assert self.connection is not None, "no agent is connected"
        for header, frames in self._messages(self._pipes[self.connection], list(items)):
            self._router.send(self.connection, header, frames)

    def send_bytes(self, data: bytes) -> None:
        assert self.connection is not None
        self._router.send(self.connection, data, [])

    # What happens

    def poll(self, seconds: float) -> None:
        """Wait for messages for at most `seconds`, and receive and answer all that have arrived."""
        if self._router._socket.poll(max(0, int(seconds * 1000))):
            while (received := self._router.receive()) is not None:
                self._receive(*received)

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        """Continue until `condition` holds. After `seconds`, raise an error that shows what was received last."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            assert left > 0, f"not within {seconds} s; {self}"
            self.poll(min(left, 0.02))

    def run(self, tasks: Sequence[RunTask], seconds: float = 30.0) -> list[RunResult]:
        """Send tasks and return their results in the order of the tasks."""
        before = len(self.results)
        self.send(tasks)
        self.until(lambda: len(self.results) - before >= len(tasks), seconds)
        by_id = {result.task_id: result for result in self.results[before:]}
        return [by_id[task.task_id] for task in tasks]

    def __str__(self) -> str:
        return (
            f"{len(self.hellos)} hellos, {len(self.results)} results, {len(self.requests)} object requests, "
            f"last results: {[(r.status, r.payload[:80]) for r in self.results[-3:]]}"
        )

    def _receive(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        pipe = self._pipes.setdefault(connection, Pipe(AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT))
        try:
            batches = pipe.receive(header, frames)
        except ProtocolError:
            self.undecodable += 1
            return
        answers: list[Any] = []
        for batch in batches:
            for item in batch:
                self._take(connection, item, answers)
        messages = self._messages(pipe, answers)
        if self.acknowledges and (pipe.is_acknowledgement_due or any(batch.item is RunResult for batch in batches)):
            messages.append(pipe.unnumbered([]))
        try:
            for answer, answer_frames in messages:
                self._router.send(connection, answer, answer_frames)
        except PeerGoneError:
            pass

    def _messages(self, pipe: Pipe, items: Sequence[Any]) -> list[Message]:
        """Return the messages of new items, after those of items that were not sent before."""
        alone = [item for item in items if type(item) in _NOT_COUNTED]
        pipe.put_all(item for item in items if type(item) not in _NOT_COUNTED)
        messages = [pipe.unnumbered(alone)] if alone else []
        messages += pipe.take()
        return messages if self.acknowledges else [(with_heard(header, 0), frames) for header, frames in messages]

    def _take(self, connection: Connection, item: Any, answers: list[Any]) -> None:
        kind = type(item)
        if kind is RunResult:
            self.results.append(item)
        elif kind is WorkerHello:
            self.hellos.append(item)
            self.connection = connection
            if self.welcomes:
                answers.append(HelloReply(1, "", self.scheduler_id, 1, "0"))
        elif kind is ObjectRequest:
            self.requests.append(item.object_id)
            frames = self.objects.get(item.object_id)
            answers.append(ObjectResponse(item.object_id, frames is not None, frames or ()))
        elif kind is WorkerHeartbeat:
            self.heartbeats.append(item)
            if self.echoes:
                answers.append(WorkerHeartbeatEcho(item.sent_ns))
        elif kind is DisconnectRequest:
            self.goodbyes.append(item.reason)
            if self.lets_go:
                answers.append(DisconnectResponse("as you wish"))


def value_of(result: RunResult) -> Any:
    assert result.status == TaskStatus.SUCCESS, failure_of(result)
    frames = frames_at(result.location) if result.location else result.frames
    return from_frames(DEFAULT, frames or [result.payload])


def failure_of(result: RunResult) -> TaskFailure | str:
    if result.status == TaskStatus.FAILED:
        return TaskFailure.decode(result.payload)
    return f"{TaskStatus(result.status).name}: {result.payload!r}"


def start_agent(
    config: ClusterConfig, lifeline: int | None = None, packages: Iterable[Path] = (), **options: Any
) -> subprocess.Popen[str]:
    """Start an agent in a separate process, where `packages` are installed. It logs to stdout."""
    program = (
        "import sys; from scaler.settings import ClusterConfig; from scaler.process.logs import set_up_logging; "
        "from scaler.agent.agent import run_agent; config = ClusterConfig.from_json(sys.argv[1]); "
        "set_up_logging(config.logging); "
        f"sys.exit(run_agent(config, lifeline={lifeline}))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parents[2], *packages)))}
    return subprocess.Popen(
        [sys.executable, "-c", program, config.to_json()],
        env=environment,
        pass_fds=() if lifeline is None else (lifeline,),
        text=True,
        **options,
    )
