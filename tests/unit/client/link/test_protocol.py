from __future__ import annotations

import concurrent.futures
import math
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from scaler import task_context
from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.link import protocol, waiting
from scaler.client.link.connection import ClientConnection
from scaler.client.link.open_work import OpenWork
from scaler.client.link.protocol import ClientProtocol, make_hello
from scaler.client.link.requests import JobQuestion
from scaler.endpoint import Endpoint
from scaler.errors import DisconnectedError, ObjectTooLargeError, ProcessorDiedError, ProtocolError
from scaler.ids import NO_ID, ClientId, ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.peer.times import Patience
from scaler.task_context import TaskContext
from scaler.transport.opening import open_transport
from scaler.wire.codec.codec import encode_message
from scaler.wire.messages.client import (
    NO_GRAPH,
    ClientHeartbeat,
    ClientHello,
    ClientResting,
    JobVerb,
    OutputRequest,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.common import (
    HelloReply,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectRequest,
    TaskStatus,
)
from scaler.wire.messages.directions import Direction
from scaler.wire.session import pipe
from tests.support.fake_scheduler import FakeScheduler
from tests.support.processes import wait_until

NOBODY = "tcp://127.0.0.1:1"


class TestHello:
    def test_nothing_but_the_hello_is_sent_before_its_reply(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_hellos=False) as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            reference = client.send_object("abc")
            future = client.submit(len, reference)
            (hello,) = scheduler.wait_for(ClientHello)
            assert hello.client_id == client.identity
            assert {type(item) for item in scheduler.heard} == {ClientHello}
            scheduler.say(HelloReply(1, "", scheduler.scheduler_id, 1, "0"))
            assert future.result(10) == 3
            assert [type(item) for item in scheduler.heard if not isinstance(item, ClientHeartbeat)][-3:] == [
                ObjectInstruction,
                ObjectInstruction,
                Task,
            ]

    def test_a_refused_hello_fails_all_calls_with_its_reason(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_hellos=False) as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            future = client.submit(abs, 1)
            scheduler.wait_for(ClientHello)
            scheduler.say(HelloReply(0, "this scheduler speaks 9, the client 1", scheduler.scheduler_id, 9, "9"))
            with pytest.raises(DisconnectedError, match="speaks 9"):
                future.result(10)
            with pytest.raises(DisconnectedError, match="speaks 9"):
                client.submit(abs, 1)
            client.disconnect()

    def test_a_second_reply_to_a_hello_is_ignored(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address)
            assert client.submit(abs, -1).result(10) == 1
            scheduler.say(HelloReply(0, "too late", scheduler.scheduler_id, 1, "0"))
            assert client.submit(abs, -2).result(10) == 2


class TestWhatCannotBeWritten:
    def test_a_message_that_cannot_be_written_fails_after_five_tries_and_the_client_continues(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def encode_but_one(direction: Direction, items: Sequence[Any], *arguments: Any) -> Any:
            if any(type(item) is Task and item.name == "too much" for item in items):
                raise MemoryError("no room")
            return encode_message(direction, items, *arguments)

        monkeypatch.setattr(pipe, "encode_message", encode_but_one)
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address)
            assert client.submit(abs, -1).result(10) == 1
            with pytest.raises(ProtocolError, match=r"could not write its messages, .* MemoryError: no room"):
                client.options(name="too much").submit(abs, -2).result(30)
            assert client.submit(abs, -3).result(10) == 3
            assert len(scheduler.of(ClientHello)) > TRIES_MOST, "on a busy machine a hello may be said twice"

    def test_an_item_that_cannot_be_written_fails_only_its_own_call(self, scheduler: FakeScheduler) -> None:
        with Client(scheduler.address) as client:
            assert client.submit(abs, -1).result(10) == 1
            link = client._core.link
            question = JobQuestion(JobVerb.SHOW, "fine")
            question._request = (JobVerb.SHOW, 23, 0, 0, b"", ())
            wrong = Future[Any]()
            scheduler.answers_tasks = False
            innocent = client.options(at_most_once=True).submit(abs, -2)
            link.ask_job(question)
            link._put(lambda: link._work.out.append(_wrong_task(link, wrong)))
            with pytest.raises(
                TypeError, match="cannot be sent to the scheduler: TypeError: the field 'name' of a JobReq"
            ):
                question.result(10)
            with pytest.raises(TypeError, match=r"cannot be sent .* 'name' of a Task cannot be 23"):
                wrong.result(10)
            assert not innocent.done()
            for task in scheduler.wait_for(Task, 2)[1:]:
                scheduler.run(task)
            assert innocent.result(10) == 2
            assert len(scheduler.of(ClientHello)) == 1


def _wrong_task(link: Any, future: Future[Any]) -> Task:
    """Open a task whose item cannot be written, in the link's thread. Return the item."""
    task = Task(TaskId(b"w" * 16), ObjectId(b"f" * 16), b"", b"", name=23)  # type: ignore[arg-type]
    sink = SimpleNamespace(fail=lambda make_error: future.set_exception(make_error()))
    link._work._tasks[task.task_id] = (task, sink, None, (), ())
    return task


class TestReconnect:
    def test_open_work_is_resubmitted_to_the_next_scheduler_at_the_address(
        self, new_client: Callable[..., Client]
    ) -> None:
        with FakeScheduler(answers_tasks=False) as first:
            client = new_client(first.address)
            reference = client.send_object([1, 2, 3])
            futures = [client.submit(sum, reference), client.submit(len, b"x" * 50_000)]
            unsent = client.submit(abs, -1)
            first.wait_for(Task, 3)
            unsent.cancel()
            first.close()
            with FakeScheduler(first.address) as second:
                assert [future.result(10) for future in futures] == [6, 50_000]
                assert second.of(ClientHello)[0].client_id == client.identity
                assert len(second.of(Task)) == 2
                assert client.submit(sum, reference).result(10) == 6

    def test_work_submitted_without_a_scheduler_is_done_by_the_next_one(
        self, new_client: Callable[..., Client]
    ) -> None:
        first = FakeScheduler()
        client = new_client(first.address)
        assert client.submit(abs, -1).result(10) == 1
        first.close()
        future = client.submit(abs, -2)
        with FakeScheduler(first.address):
            assert future.result(10) == 2

    def test_a_requested_hello_is_sent_on_a_new_connection(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            client = new_client(scheduler.address)
            future = client.submit(abs, -1)
            scheduler.wait_for(Task)
            scheduler.say(HelloRequest("who are you?"))
            scheduler.wait_for(ClientHello, 2)
            assert len(set(scheduler.connections)) == 2
            again = scheduler.wait_for(Task, 2)
            assert again[0] == again[1]
            scheduler.run(again[1])
            assert future.result(10) == 1

    def test_a_silent_scheduler_gets_a_new_connection(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            client = new_client(scheduler.address)
            future = client.submit(abs, -1)
            scheduler.wait_for(Task)
            scheduler.answers_heartbeats = False
            scheduler.wait_for(ClientHello, 2)
            scheduler.answers_heartbeats = True
            scheduler.run(scheduler.wait_for(Task, 2)[1])
            assert future.result(10) == 1

    def test_repeated_hello_requests_do_not_make_the_client_spin(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_hellos=False) as scheduler:
            new_client(scheduler.address, heartbeat_interval_seconds=2)
            started = time.monotonic()
            for count in range(1, 5):
                scheduler.wait_for(ClientHello, count)
                scheduler.say(HelloRequest("again"))
            assert time.monotonic() - started > 0.1

    def test_a_map_survives_a_restart_of_the_scheduler(self, new_client: Callable[..., Client]) -> None:
        first = FakeScheduler(answers_tasks=False)
        client = new_client(first.address)
        second: list[FakeScheduler] = []

        def items() -> Iterator[tuple[int]]:
            for n in range(100):
                yield (n,)
            first.wait_for(Task, 100)
            first.close()
            second.append(FakeScheduler(first.address))

        assert client.map(abs, items()) == list(range(100))
        second[0].close()


class TestLostResults:
    """Large results that were lost with a scheduler; the next one at its address runs their tasks again."""

    LARGE = 100_000

    @pytest.fixture
    def first(self) -> Iterator[FakeScheduler]:
        with FakeScheduler() as scheduler:
            yield scheduler

    def done(self, client: Client, count: int = 1) -> list[ScalerFuture]:
        futures = [client.submit(bytes, self.LARGE + number) for number in range(count)]
        assert not wait(futures, 10).not_done
        return futures

    def test_done_futures_stay_done_and_have_their_values_after_a_restart(
        self, first: FakeScheduler, new_client: Callable[..., Client]
    ) -> None:
        client = new_client(first.address)
        futures = self.done(client, 3)
        first.close()
        with FakeScheduler(first.address) as second:
            assert all(future.done() for future in futures)
            assert [len(future.result(10)) for future in futures] == [self.LARGE + number for number in range(3)]
            assert len([task for task in second.of(Task) if task.payload]) == 3

    def test_a_nested_client_recovers_its_lost_results(
        self, first: FakeScheduler, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nest = TaskContext()
        nest.address = first.address
        monkeypatch.setattr(task_context, "current", nest)
        client = new_client(None, heartbeat_interval_seconds=0.03)  # shared by clients with these settings
        futures = self.done(client, 2)
        first.close()
        with FakeScheduler(first.address):
            assert [len(future.result(10)) for future in futures] == [self.LARGE, self.LARGE + 1]
        client._core.link.close()

    def test_a_thread_that_waits_for_a_lost_result_gets_the_recomputed_one(
        self, first: FakeScheduler, new_client: Callable[..., Client]
    ) -> None:
        first.answers_requests = False
        (future,) = self.done(new_client(first.address))
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(0.01)
        first.wait_for(ObjectRequest)
        first.close()
        with FakeScheduler(first.address):
            assert len(future.result(10)) == self.LARGE

    @pytest.mark.parametrize("size", [10, 100_000])
    def test_a_callback_runs_after_the_recomputed_result_has_arrived(
        self, first: FakeScheduler, new_client: Callable[..., Client], size: int
    ) -> None:
        first.answers_requests = first.answers_tasks = False
        future = new_client(first.address).submit(bytes, self.LARGE)
        sizes: SimpleQueue[int] = SimpleQueue()
        future.add_done_callback(lambda done: sizes.put(len(done.result(0))))
        first.run(*first.wait_for(Task))
        first.wait_for(ObjectRequest)
        assert not future.done()
        first.close()
        with FakeScheduler(first.address, answers_tasks=False) as second:
            (task,) = second.wait_for(Task)
            if size < self.LARGE:
                second.say(TaskResult(task.task_id, 0, pickle.dumps(bytes(size)), 0))
            else:
                second.run(task)
            assert sizes.get(timeout=10) == size

    @pytest.mark.parametrize("has_callback", [True, False])
    def test_a_recomputed_task_that_fails_raises_its_error(
        self, first: FakeScheduler, new_client: Callable[..., Client], has_callback: bool
    ) -> None:
        first.answers_requests = first.answers_tasks = False
        future = new_client(first.address).submit(bytes, self.LARGE)
        if has_callback:
            future.add_done_callback(lambda _: None)
        first.run(*first.wait_for(Task))
        if not has_callback:
            assert future.exception(10) is None
            with pytest.raises(concurrent.futures.TimeoutError):
                future.result(0.01)
        first.wait_for(ObjectRequest)
        first.close()
        with FakeScheduler(first.address, answers_tasks=False) as second:
            (task,) = second.wait_for(Task)
            second.say(TaskResult(task.task_id, TaskStatus.PROCESSOR_DIED, b"signal SIGKILL", 0))
            with pytest.raises(ProcessorDiedError, match="task bytes: signal SIGKILL"):
                future.result(10)
            assert isinstance(future.exception(), ProcessorDiedError)
            assert future.done()

    def test_a_map_gets_recomputed_results(self, first: FakeScheduler, new_client: Callable[..., Client]) -> None:
        first.answers_requests = False
        client = new_client(first.address)
        second: list[FakeScheduler] = []

        def items() -> Iterator[tuple[int]]:
            for number in range(20):
                yield (self.LARGE + number,)
            first.wait_for(ObjectRequest, 20)
            first.close()
            second.append(FakeScheduler(first.address))

        assert [len(value) for value in client.map(bytes, items())] == [self.LARGE + number for number in range(20)]
        second[0].close()

    def test_lost_results_of_a_graph_are_recomputed_by_their_own_calls(
        self, first: FakeScheduler, new_client: Callable[..., Client]
    ) -> None:
        graph = {"a": (bytes, self.LARGE), "b": (bytes.upper, "a"), "c": (len, "b")}
        futures = new_client(first.address).get(graph, ["a", "b", "c"], block=False)
        assert not wait(futures.values(), 10).not_done
        first.answers_requests = False
        with ThreadPoolExecutor(2) as readers:
            reads = [readers.submit(futures[key].result, 10) for key in "ab"]
            first.wait_for(ObjectRequest, 2)  # requested before the next scheduler: otherwise an agent may have both
            first.close()
            second = FakeScheduler(first.address)
        with second:
            assert [len(read.result()) for read in reads] == [self.LARGE, self.LARGE]
            assert futures["c"].result() == self.LARGE
            again = [task for task in second.of(Task) if task.payload]
            assert {task.task_id: task.inputs for task in again} == {
                futures["a"].task_id: b"",
                futures["b"].task_id: futures["a"].task_id,
            }
            assert [task.unwanted for task in again] == [0, 0]

    def test_arguments_are_released_with_their_future(
        self, first: FakeScheduler, new_client: Callable[..., Client]
    ) -> None:
        client = new_client(first.address)
        read, unread = self.done(client, 2)
        calls = client._core.link._work.large.unread
        assert len(calls) == 2
        assert len(read.result(10)) == self.LARGE
        assert list(calls) == [unread.task_id]
        first.heard.clear()
        del unread
        first.wait_for(ObjectInstruction, 1, lambda item: item.kind == InstructionKind.DELETE)
        wait_until(lambda: not calls, "the call is let go")


class TestTimeout:
    def welcome_client(self, new_client: Callable[..., Client], scheduler: FakeScheduler) -> Client:
        """Return a connected client with a time-out of a second: on a busy machine a connection may take longer."""
        client = new_client(scheduler.address, timeout_seconds=1)
        scheduler.wait_for(ClientHeartbeat)
        return client

    def test_a_missing_scheduler_is_a_timeout_error(self, new_client: Callable[..., Client]) -> None:
        client = new_client(NOBODY, timeout_seconds=0.1)
        futures = [client.submit(abs, n) for n in range(3)]
        for future in futures:
            with pytest.raises(TimeoutError, match=r"tcp://127.0.0.1:1 for 0.1 seconds; check"):
                future.result(10)
        assert futures[0].exception() is not futures[1].exception()
        with pytest.raises(TimeoutError, match="no scheduler"):
            client.map(abs, [(1,)])
        with pytest.raises(TimeoutError, match="no scheduler"):
            client.shutdown()

    @pytest.mark.thorough
    def test_after_a_timeout_the_client_is_usable_with_the_next_scheduler(
        self, new_client: Callable[..., Client]
    ) -> None:
        first = FakeScheduler(answers_tasks=False)
        client = self.welcome_client(new_client, first)
        reference = client.send_object("abc")
        lost = client.submit(abs, 1)
        first.wait_for(Task)
        first.close()
        with pytest.raises(TimeoutError):
            lost.result(10)
        with FakeScheduler(first.address) as second:
            (cancel,) = second.wait_for(TaskCancel)
            assert cancel.task_id == lost.task_id
            assert client.submit(len, reference).result(10) == 3

    @pytest.mark.thorough
    def test_a_silent_scheduler_is_a_timeout_error(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            client = self.welcome_client(new_client, scheduler)
            future = client.submit(abs, 1)
            scheduler.wait_for(Task)
            scheduler.answers_hellos = scheduler.answers_heartbeats = False
            with pytest.raises(TimeoutError, match=r"for 1 seconds; something listens there that does not answer as"):
                future.result(60)

    @pytest.mark.thorough
    def test_a_task_may_take_longer_than_the_timeout(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            client = self.welcome_client(new_client, scheduler)
            future = client.submit(abs, -1)
            (task,) = scheduler.wait_for(Task)
            with pytest.raises(concurrent.futures.TimeoutError):
                future.result(1.5)
            assert not future.done()
            scheduler.run(task)
            assert future.result(10) == 1


class TestHeartbeats:
    def test_heartbeats_report_whether_messages_are_pending(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SCALER_SHARED_MEMORY", "0")
        monkeypatch.setattr(pipe, "ACKNOWLEDGED_BYTES", math.inf)
        with FakeScheduler(answers_tasks=False, answers_heartbeats=False) as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=0.02)
            client.submit(len, bytes(3_000_000))
            scheduler.wait_for(ClientHeartbeat, where=lambda beat: beat.has_unsent == 1)
            assert not scheduler.of(Task)
            scheduler.answers_heartbeats = True  # echoes acknowledge messages
            scheduler.wait_for(Task)
            scheduler.wait_until(lambda: not scheduler.of(ClientHeartbeat)[-1].has_unsent)


class TestHostileInput:
    @pytest.mark.parametrize("header", [b"", b"garbage", b"\0" * 64, b"\xff" * 1000])
    def test_garbage_is_answered_with_a_new_connection(self, new_client: Callable[..., Client], header: bytes) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            assert client.submit(abs, -1).result(10) == 1
            scheduler.send_bytes(header, [b"frame"])
            scheduler.wait_for(ClientHello, 2)
            assert len(set(scheduler.connections)) == 2
            assert client.submit(abs, -2).result(10) == 2

    def test_a_task_whose_result_cannot_be_read_is_resent(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            future = client.submit(abs, -1)
            scheduler.wait_for(Task)
            scheduler.send_bytes(b"the result, spoiled")
            again = scheduler.wait_for(Task, 2)
            assert again[0] == again[1]
            scheduler.run(again[1])
            assert future.result(10) == 1

    def test_messages_after_garbage_on_a_connection_are_ignored(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            future = client.submit(abs, -1)
            (task,) = scheduler.wait_for(Task)
            scheduler.answers_hellos = False
            scheduler.send_garbage_and_run(task)
            scheduler.wait_for(ClientHello, 2)
            assert not future.done()

    def test_calls_with_only_unreadable_answers_fail_after_some_tries(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            large = client.submit(bytes, 100_000)
            assert large.exception(10) is None
            scheduler.answers_tasks = scheduler.answers_requests = False
            task = client.submit(abs, -1)
            graph = client.get({"a": (abs, -1)}, ["a"], block=False)
            arrivals: list[BaseException] = []

            def ask() -> None:
                try:
                    large.result()
                except ProtocolError as error:
                    arrivals.append(error)

            asking = threading.Thread(target=ask)
            asking.start()
            for count in range(1, TRIES_MOST + 1):
                scheduler.wait_for(ObjectRequest)
                scheduler.wait_for(Task, count, lambda item: item.task_id == graph["a"].task_id)
                scheduler.wait_for(Task, count, lambda item: item.task_id == large.task_id)
                scheduler.wait_for(Task, count, lambda item: item.task_id == task.task_id)
                assert not task.done()
                scheduler.send_bytes(b"garbage")
            asking.join(10)
            for error in (task.exception(10), graph["a"].exception(10), *arrivals):
                assert isinstance(error, ProtocolError)
                assert "5 times" in str(error)
            assert len(arrivals) == 1
            scheduler.wait_for(TaskCancel, 1, lambda cancel: cancel.task_id == task.task_id)
            scheduler.wait_for(TaskCancel, 1, lambda cancel: cancel.graph_id != NO_GRAPH)
            scheduler.answers_tasks = True
            assert client.submit(abs, -2).result(10) == 2

    @pytest.mark.thorough
    def test_calls_answered_after_some_unreadable_messages_succeed(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            for number in range(3):  # each has its own tries
                future = client.submit(abs, -number)
                for _ in range(TRIES_MOST - 1):
                    scheduler.wait_for(Task, 1, lambda task, future=future: task.task_id == future.task_id)
                    scheduler.heard.clear()
                    scheduler.send_bytes(b"garbage")
                scheduler.run(*scheduler.wait_for(Task))
                assert future.result(10) == number
                scheduler.heard.clear()

    def test_repeated_garbage_does_not_make_the_client_spin(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler() as scheduler:
            new_client(scheduler.address, heartbeat_interval_seconds=2)
            started = time.monotonic()
            for count in range(1, 5):
                scheduler.wait_for(ClientHello, count)
                scheduler.send_bytes(b"garbage")
            assert time.monotonic() - started > 0.1

    def test_results_of_unknown_tasks_are_ignored_and_large_ones_deleted(
        self, new_client: Callable[..., Client]
    ) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            assert client.submit(abs, -1).result(10) == 1
            scheduler.say(TaskResult(TaskId(b"u" * 16), 0, b"", 0), TaskResult(TaskId(b"v" * 16), 0, b"", 99))
            (gone,) = scheduler.wait_for(ObjectInstruction, 1, lambda item: item.kind == InstructionKind.DELETE)
            assert gone.object_id == b"v" * 16


class TestRest:
    def test_a_client_in_a_task_reports_after_its_messages_that_the_task_only_waits(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            nest = TaskContext()
            nest.address = scheduler.address
            monkeypatch.setattr(task_context, "current", nest)
            with Client(scheduler.address, heartbeat_interval_seconds=1000) as client:
                future = client.submit(abs, -1)
                client._core.link.rest(5, future.done)
                scheduler.wait_for(ClientResting)
                kinds = [type(item) for item in scheduler.heard]
                assert kinds.index(ClientResting) > kinds.index(Task)
                assert scheduler.wait_for(ClientResting)[-1] == ClientResting(5, 0)
                scheduler.say(TaskResult(TaskId(b"u" * 16), 0, b"", 0))
                assert scheduler.wait_for(ClientResting, 2)[-1] == ClientResting(5, 1)
                client.submit(abs, -2)
                assert scheduler.wait_for(ClientResting, 3)[-1] == ClientResting(5, 1)
                future.cancel()
                scheduler.wait_for(TaskCancel)
                scheduler.say(
                    TaskResult(TaskId(b"u" * 16), 0, b"", 0)
                )  # the wait is over: nothing is reported about it
                client._core.link.rest(6, bool)
                scheduler.wait_for(ClientResting, where=lambda item: item.wait == 6)
                assert [item.wait for item in scheduler.of(ClientResting) if item.wait != 6] == [5, 5, 5]
            client._core.link.close(10)  # the next client in a task of this process would use the connection

    def test_a_client_outside_tasks_does_not_report_waiting(self) -> None:
        with FakeScheduler() as scheduler, Client(scheduler.address) as client:
            client._core.link.rest(5, bool)
            assert client.submit(abs, -1).result(10) == 1
            assert not [item for item in scheduler.heard if type(item) is ClientResting]


@pytest.mark.thorough
def test_failed_tasks_are_not_reported_as_progressing(
    new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "WARN_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(protocol, "QUESTION_WAIT_SECONDS", 0.0)
    client = new_client("tcp://127.0.0.1:1", timeout_seconds=1)
    with pytest.raises(TimeoutError, match="no scheduler answered"):
        client.submit(abs, -1).result(60)
    watched = client._core.link._protocol.watch
    wait_until(lambda: watched.due_at == math.inf, "it has seen that nothing is open")
    client.disconnect()  # this waits for the thread that would log it
    assert "1 task waits: no scheduler answers" in caplog.text
    assert "go on" not in caplog.text


class TestLargestValue:
    """Values above the limit of the scheduler are not sent, whether the limit is known before or arrives with the
    hello.
    """

    def test_a_value_above_the_limit_is_refused_at_submit_and_the_client_continues(
        self, new_client: Callable[..., Client]
    ) -> None:
        with FakeScheduler(value_bytes=100_000) as scheduler:
            client = new_client(scheduler.address)
            assert client.submit(abs, -1).result(10) == 1
            large = bytes(100_001)
            with pytest.raises(
                ObjectTooLargeError, match=r"^len: argument 1 .*100,\d\d\d bytes.* at most 100,000 bytes"
            ):
                client.submit(len, large)
            with pytest.raises(ObjectTooLargeError, match=r"^the object 'table' is too large"):
                client.send_object(large, name="table")
            with pytest.raises(ObjectTooLargeError, match=r"^item 2 of the map: len: argument 1"):
                client.map(len, [(b"",), (b"",), (large,)])
            with pytest.raises(ObjectTooLargeError, match=r"^item 1 of the map: len: argument 1"):
                list(client.map_unordered(len, [(b"",), (large,)]))
            with pytest.raises(ObjectTooLargeError, match=r"^a value of the node 'n' is too large"):
                client.get({"data": large, "n": (len, "data")}, ["n"])
            with pytest.raises(
                ObjectTooLargeError, match=r"the function .* with the values that it holds is too large"
            ):
                client.submit(partial(len, large))
            assert client.submit(len, large[:90_000]).result(10) == 90_000
            assert all(sum(map(len, frames)) <= 100_000 for frames in scheduler.objects.values())

    def test_large_values_submitted_before_the_hello_reply_fail_when_it_arrives(
        self, new_client: Callable[..., Client]
    ) -> None:
        with FakeScheduler(answers_hellos=False, value_bytes=100_000) as scheduler:
            client = new_client(scheduler.address)
            large = bytes(100_001)
            reference = client.send_object(large, name="table")
            futures = [
                client.submit(len, large),
                client.submit(len, reference),
                client.submit(partial(len, large)),
                client.get({"n": (len, "data"), "data": large}, ["n"], block=False)["n"],
            ]
            small = client.submit(abs, -2)
            scheduler.wait_for(ClientHello)
            scheduler.answers_hellos = True
            own = (scheduler.scheduler_id, 1, "0")
            scheduler.say(HelloReply(1, "", *own, value_bytes=scheduler.value_bytes))
            for future, what in zip(
                futures, ["an argument", "the object 'table'", "the function", "an argument"], strict=True
            ):
                with pytest.raises(ObjectTooLargeError, match=rf"^{what}"):
                    future.result(10)
            assert small.result(10) == 2
            with pytest.raises(ObjectTooLargeError, match=r"^the object 'table'"):
                client.submit(len, reference).result(10)
            assert all(sum(map(len, frames)) <= 100_000 for frames in scheduler.objects.values())

    def test_a_heartbeat_updates_the_limit_of_values(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler(value_bytes=100_000) as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=0.05)
            assert client.submit(abs, -1).result(10) == 1
            scheduler.value_bytes = 200_000
            limit = client._core.link.limit
            wait_until(lambda: limit.n_bytes == 200_000, "the client has heard it")
            assert client.submit(len, bytes(190_000)).result(10) == 190_000


class TestOutputOfTasks:
    @pytest.fixture
    def work(self) -> OpenWork:
        return OpenWork()

    @pytest.fixture
    def speaker(self, work: OpenWork) -> Iterator[ClientProtocol]:
        connection = ClientConnection(open_transport(Endpoint.parse(NOBODY)))
        yield ClientProtocol(make_hello(ClientId(b"c" * 16), TaskContext()), connection, Patience(5, 60), work)
        connection.end()

    def test_the_number_of_open_output_requests_is_limited_but_a_stream_stays(
        self, speaker: ClientProtocol, work: OpenWork
    ) -> None:
        speaker.follow_output(SimpleNamespace(take=print, end=print))
        for _ in range(protocol.OUTPUTS_MOST + 10):
            speaker.ask_output(TaskId(b"t" * 16), print)
        work.out.clear()
        speaker._outputs.resend()
        assert len(work.out) == protocol.OUTPUTS_MOST
        assert work.out[0] == OutputRequest(1, TaskId(NO_ID))

    def test_a_request_for_a_report_is_resent_unchanged_in_the_next_session(
        self, speaker: ClientProtocol, work: OpenWork
    ) -> None:
        speaker.ask_output(TaskId(b"t" * 16), print, report=True)
        speaker._outputs.resend()
        assert work.out == [OutputRequest(1, TaskId(b"t" * 16), 1)] * 2


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("/home/me/prices.py", "prices.py"),
        ("-c", "python -c"),
        ("", "python"),
        ("/x/ipykernel_launcher.py", "notebook"),
        ("od\nd.py", "od\\nd.py"),
    ],
)
def test_a_client_is_known_by_its_script_and_process_or_by_its_name(
    monkeypatch: pytest.MonkeyPatch, script: str, shown: str
) -> None:
    monkeypatch.setattr("sys.argv", [script])
    client_id = ClientId(b"c" * 16)
    assert make_hello(client_id, TaskContext()).label.startswith(f"{shown} {os.getpid()}, ")
    assert make_hello(client_id, TaskContext(), name="night run").label.startswith("night run, ")
    assert make_hello(client_id, TaskContext(), "scale-1", "night run").label.startswith("scale-1 ")
