"""FakeScheduler: the other end of a client's link, in a thread of the test's process, over a real socket.

It runs the tasks itself, at once. A test switches replies off, sends items, and waits for received ones.
"""

from __future__ import annotations

import os
import select
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import cloudpickle
import zmq

from scaler.endpoint import Endpoint
from scaler.errors import MissingObjects, ProtocolError
from scaler.ids import NO_ID, Connection, GraphId, ObjectId, SchedulerId, TaskId, random_id, split_ids
from scaler.pickling.serialization import (
    INLINE_BYTES,
    OBJECT,
    VALUE,
    Frames,
    from_frames,
    function_from_frames,
    put_results,
    read_arguments,
    size_of,
    to_frames,
)
from scaler.transport.interface import PeerGoneError
from scaler.transport.sockets import RouterSocket
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.client import (
    NO_GRAPH,
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientHello,
    ClientShutdownResponse,
    ExplainRequest,
    ExplainResponse,
    GoodbyeKind,
    InfoRequest,
    InfoResponse,
    InputResult,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    HelloReply,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.messages.rows import calls_of
from scaler.wire.messages.vocabulary import UNKNOWN, WORKER
from scaler.wire.session.pipe import Message, Pipe

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
WAIT_SECONDS = 10.0
_NOT_COUNTED = (HelloReply, HelloRequest, ClientHeartbeatEcho)


class FakeScheduler:
    """A scheduler for one client, which records everything and can be made to misbehave."""

    def __init__(self, address: str = "tcp://127.0.0.1:*", **switches: Any) -> None:
        self.scheduler_id = SchedulerId(random_id())
        self.answers_hellos = True
        self.answers_heartbeats = True
        self.answers_tasks = True
        self.answers_requests = True
        self.answers_inquiries = True
        self.refuses_hellos_because = ""
        self.value_bytes = 0
        """the announced limit of the bytes of one value; 0: none is announced"""
        self.refuses_shutdown_because = ""
        for name, value in switches.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.begun: set[TaskId] = set()
        """running tasks, which the cancellation of waiting tasks does not stop"""
        self.heard: list[Any] = []
        self.connections: list[Connection] = []
        self._pipes: dict[Connection, Pipe] = {}
        self.objects: dict[ObjectId, Frames] = {}
        self.message_count = self.bad_message_count = 0
        self._canceled: set[TaskId] = set()
        self._graphs: dict[GraphId, list[Task]] = {}
        self._waiting: list[Task] = []
        """tasks that need results which are not there yet"""
        self._ended: dict[TaskId, TaskResult] = {}
        """the results of this session, including those that the client has sent"""
        self._commands: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._wake_receiver, self._wake_sender = os.pipe()
        self._is_closing = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = RouterSocket(self._context, Endpoint.parse(address))
        self.address = self._socket.endpoint.address
        self._thread = threading.Thread(target=self._run, name="fake-scheduler", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # For the test

    def close(self) -> None:
        """End without a message, as a killed process does."""
        if not self._is_closing:
            self._is_closing = True
            os.write(self._wake_sender, b"\0")
            self._thread.join()
            os.close(self._wake_receiver)
            os.close(self._wake_sender)

    def say(self, *items: Any) -> None:
        self._do(lambda: self._say(self.connections[-1], items))

    def send_bytes(self, header: bytes, frames: Sequence[bytes] = ()) -> None:
        self._do(lambda: self._socket.send(self.connections[-1], header, frames))

    def send_garbage_and_run(self, task: Task) -> None:
        """Send bytes that are not a message, and after them, on the same connection, the result of a task."""

        def say() -> None:
            connection = self.connections[-1]
            self._socket.send(connection, b"garbage", ())
            self._say(connection, [self._result_of(task)])

        self._do(say)

    def run(self, task: Task) -> None:
        """Run a task that was not run yet, and send its result."""
        self._do(lambda: self._say(self.connections[-1], [self._result_of(task)]))

    def stored(self, object_id: bytes) -> ObjectResponse:
        return ObjectResponse(ObjectId(object_id), 1, self.objects[ObjectId(object_id)])

    def of(self, kind: type[T]) -> list[T]:
        """Return all received items of one type."""
        with self._changed:
            return [item for item in self.heard if type(item) is kind]

    def wait_for(self, kind: type[T], count: int = 1, where: Callable[[T], bool] = lambda _item: True) -> list[T]:
        """Wait until `count` items of a type were received, and return all of them."""

        def found() -> list[T]:
            items = [item for item in self.of(kind) if where(item)]
            return items if len(items) >= count else []

        return self.wait_until(found)

    def wait_until(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition on the received items holds, and return its value."""
        ends_at = time.monotonic() + WAIT_SECONDS
        with self._changed:
            while not (value := condition()):
                left = ends_at - time.monotonic()
                assert left > 0, f"not received; received so far: {[type(item).__name__ for item in self.heard]}"
                self._changed.wait(left)
            return value

    # The thread

    def _do(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        os.write(self._wake_sender, b"\0")

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._wake_receiver, select.POLLIN)
        poller.register(self._socket.descriptor, select.POLLIN)
        while not self._is_closing:
            while (received := self._socket.receive()) is not None:
                self._hear(*received)
            while self._commands:
                self._commands.popleft()()
                continue
            if (received := self._socket.receive()) is not None:
                self._hear(*received)
                continue
            for descriptor, _ in poller.poll(1000):
                if descriptor == self._wake_receiver:
                    os.read(self._wake_receiver, 4096)
        self._socket.close()
        self._context.term()

    def _hear(self, connection: Connection, header: bytes, frames: list[memoryview]) -> None:
        self.message_count += 1
        try:
            pipe = self._pipes.setdefault(connection, Pipe(CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT))
            batches = pipe.receive(header, frames)
        except ProtocolError:
            self.bad_message_count += 1
            return
        items = [item for batch in batches for item in batch]
        answers = []
        for item in items:
            if isinstance(item, ClientHello):
                self.connections.append(connection)
            answer = self._answers.get(type(item), lambda *_: None)(self, item)
            if isinstance(answer, list):
                answers += answer
            elif answer is not None:
                answers.append(answer)
        with self._changed:  # before the answers are sent, so that a client with an answer can rely on it
            self.heard += items
            self._changed.notify_all()
        self._say(connection, answers)

    def _say(self, connection: Connection, items: Sequence[Any]) -> None:
        """Send items, after those that were not sent before."""
        pipe = self._pipes[connection]
        alone = [item for item in items if type(item) in _NOT_COUNTED]
        pipe.put_all(item for item in items if type(item) not in _NOT_COUNTED)
        messages: list[Message] = [pipe.unnumbered(alone)] if alone else []
        messages += pipe.take()
        if pipe.is_acknowledgement_due:
            messages.append(pipe.unnumbered([]))
        for header, frames in messages:
            try:
                self._socket.send(connection, header, frames)
            except PeerGoneError:
                return

    def _on_hello(self, _hello: ClientHello) -> HelloReply | None:
        if not self.answers_hellos:
            return None
        for of_session in (self._graphs, self._waiting, self._ended):
            of_session.clear()
        accepted = not self.refuses_hellos_because
        own = (self.scheduler_id, PROTOCOL_VERSION, "0")
        return HelloReply(int(accepted), self.refuses_hellos_because, *own, value_bytes=self.value_bytes)

    def _on_inquiry(self, request: InfoRequest) -> InfoResponse | None:
        return InfoResponse(request.number, 2, 1, 1, 0) if self.answers_inquiries else None

    def _on_heartbeat(self, heartbeat: ClientHeartbeat) -> ClientHeartbeatEcho | None:
        return ClientHeartbeatEcho(heartbeat.sent_ns, self.value_bytes) if self.answers_heartbeats else None

    def _on_instruction(self, instruction: ObjectInstruction) -> None:
        if instruction.kind == InstructionKind.DELETE:
            self.objects.pop(instruction.object_id, None)
        else:
            self.objects[instruction.object_id] = instruction.frames

    def _on_request(self, request: ObjectRequest) -> ObjectResponse | None:
        if not self.answers_requests:
            return None
        frames = self.objects.get(request.object_id)
        return ObjectResponse(request.object_id, int(frames is not None), frames or ())

    def _on_task(self, task: Task) -> list[TaskResult]:
        if task.graph_id != NO_GRAPH:
            self._graphs.setdefault(task.graph_id, []).append(task)
        if task.function_id == NO_ID:  # it keeps the position of a task that has ended
            return []
        if not task.payload and RunOptions.decode(task.options).was_submitted:  # no agent has its result
            return [TaskResult(task.task_id, TaskStatus.NOT_FOUND, b"", 0)]
        if not self.answers_tasks:
            return []
        self._waiting += calls_of(task)  # the rows of a range end one by one
        return self._run_ready()

    def _on_input_result(self, known: InputResult) -> list[TaskResult]:
        self._ended[known.task_id] = TaskResult(known.task_id, known.status, known.payload, known.size)
        return self._run_ready()

    def _run_ready(self) -> list[TaskResult]:
        """Run the waiting tasks whose needs have ended. Return the results that the client wants."""
        results: list[TaskResult] = []
        while True:
            task = next((each for each in self._waiting if self._ended.keys() >= set(self._needs(each))), None)
            if task is None:
                return results
            self._waiting.remove(task)
            result = self._result_of(task)
            if not task.unwanted:
                results.append(result)

    def _needs(self, task: Task) -> list[TaskId]:
        """Return the ids of the tasks whose results a task needs, in the order in which its arguments count them."""
        packed = [task.dependencies[start : start + 4] for start in range(0, len(task.dependencies), 4)]
        earlier = [self._graphs[task.graph_id][int.from_bytes(each, "little")].task_id for each in packed]
        return [*earlier, *map(TaskId, split_ids(task.inputs))]

    def _with_results(self, task: Task, needed: Sequence[TaskResult]) -> Task:
        """Return a task with the results that it needs as its arguments."""

        def argument(index: int) -> tuple[int, bytes]:
            result = needed[index]
            return (OBJECT, result.task_id) if result.size else (VALUE, result.payload)

        block, object_ids = put_results(task.payload, argument)
        return replace(task, payload=block, object_ids=task.object_ids + object_ids)

    def _on_cancel(self, cancel: TaskCancel) -> list[TaskResult]:
        if self.answers_tasks or (cancel.waiting and cancel.task_id in self.begun):
            return []
        graph = self._graphs.get(cancel.graph_id)
        wanted = [cancel.task_id] if graph is None else [task.task_id for task in graph if not task.unwanted]
        return [TaskResult(task_id, TaskStatus.CANCELED, b"", 0) for task_id in wanted]

    def _on_question(self, question: ExplainRequest) -> ExplainResponse | None:
        if question.task_id in self.begun:
            return ExplainResponse(question.task_id, "running", WORKER, "it runs at worker w")
        if self.answers_tasks:
            return ExplainResponse(question.task_id, "", UNKNOWN, "the scheduler does not have it", "w")
        return None

    def _on_goodbye(self, goodbye: ClientDisconnect) -> ClientShutdownResponse | None:
        if goodbye.kind != GoodbyeKind.SHUTDOWN:
            return None
        return ClientShutdownResponse(int(not self.refuses_shutdown_because), self.refuses_shutdown_because)

    _answers: ClassVar[dict[type, Callable[..., Any]]] = {
        ClientHello: _on_hello,
        ClientHeartbeat: _on_heartbeat,
        ObjectInstruction: _on_instruction,
        ObjectRequest: _on_request,
        Task: _on_task,
        TaskCancel: _on_cancel,
        ExplainRequest: _on_question,
        InputResult: _on_input_result,
        ClientDisconnect: _on_goodbye,
        InfoRequest: _on_inquiry,
    }

    def _result_of(self, task: Task) -> TaskResult:
        needed = [self._ended[task_id] for task_id in self._needs(task)]
        failed = next((each for each in needed if each.status), None)
        if failed is not None:
            result = replace(failed, task_id=task.task_id)
        else:
            result = self._run_task(self._with_results(task, needed) if needed else task)
        self._ended[task.task_id] = result
        return result

    def _run_task(self, task: Task) -> TaskResult:
        try:
            serializer, function = function_from_frames(self._stored(task.function_id))
            read = partial(from_frames, serializer)
            positional, keywords = read_arguments(
                task.payload,
                lambda *frames: read(frames),
                lambda object_id, _is_own: read(self._stored(object_id)),
                task.frames,
            )
            frames = to_frames(serializer, function(*positional, **keywords))
        except MissingObjects as error:
            return TaskResult(task.task_id, TaskStatus.MISSING_OBJECTS, str(error).encode(), 0)
        except Exception as error:  # noqa: BLE001 - whatever a task raises is its result
            failure = TaskFailure(type(error).__name__, str(error), traceback.format_exc(), cloudpickle.dumps(error))
            return TaskResult(task.task_id, TaskStatus.FAILED, failure.encode(), 0)
        if len(frames) == 1 and size_of(frames) <= INLINE_BYTES:
            return TaskResult(task.task_id, TaskStatus.SUCCESS, bytes(frames[0]), 0)
        self.objects[ObjectId(task.task_id)] = frames
        return TaskResult(task.task_id, TaskStatus.SUCCESS, b"", size_of(frames))

    def _stored(self, object_id: ObjectId) -> Frames:
        try:
            return self.objects[object_id]
        except KeyError:
            raise MissingObjects(f"the object {object_id.hex()} is not stored") from None
