from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from scaler import task_context
from scaler.client.calls.arguments import ArgumentPacker
from scaler.client.calls.functions import ClientFunctions
from scaler.client.client import Client
from scaler.client.link import link
from scaler.client.link.connection import ClientConnection
from scaler.client.link.link import ClientLink
from scaler.endpoint import Endpoint
from scaler.errors import DisconnectedError
from scaler.ids import ClientId, IdSource, TaskId, random_id
from scaler.pickling.serialization import DefaultSerializer
from scaler.task_context import TaskContext
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHello,
    Task,
)
from scaler.wire.messages.common import HelloRequest
from tests.support.fake_scheduler import FakeScheduler
from tests.support.processes import wait_until

NOBODY = "tcp://127.0.0.1:1"


class TestThread:
    def entry(self, sink: Any) -> Any:
        serializer = DefaultSerializer()
        functions = ClientFunctions(serializer, Endpoint.parse(NOBODY), ArgumentPacker(serializer, NOBODY))
        return functions.get(abs).entry(TaskId(IdSource()()), sink, (-1,))

    def test_a_single_submit_does_not_wake_the_thread_of_the_link(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=60)
            assert client.submit(abs, -1).result(10) == 1
            scheduler.answers_tasks = False  # an answer that arrives before the submit has ended may wake the thread
            roused = []
            inbox = client._core.link._inbox
            monkeypatch.setattr(inbox, "rouse", lambda: roused.append(1))
            for i in range(50):
                wait_until(lambda: inbox.is_asleep, "the link sleeps")
                future = client.submit(abs, -i)
                assert not roused
                scheduler.run(scheduler.wait_for(Task, i + 2)[-1])
                assert future.result(10) == i

    def test_only_more_than_a_few_submits_wake_the_thread_of_the_link(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=60)
            assert client.submit(abs, -1).result(10) == 1
            scheduler.answers_tasks = False
            inbox = client._core.link._inbox
            wait_until(lambda: inbox.is_asleep, "the link sleeps")
            roused = []
            rouse = inbox.rouse
            monkeypatch.setattr(inbox, "rouse", lambda: (roused.append(1), rouse()))
            futures = [client.submit(abs, -i) for i in range(link.FEW_TASKS + 1)]
            assert not roused
            futures += [client.submit(abs, -i) for i in range(len(futures), 20)]
            assert roused
            for task in scheduler.wait_for(Task, 21)[1:]:
                scheduler.run(task)
            assert [future.result(10) for future in futures] == list(range(20))

    def test_the_thread_of_the_link_does_nothing_right_after_a_single_result(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(link, "HOUSEKEEPING_DELAY_SECONDS", 60)
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=60)
            assert client.submit(abs, -1).result(10) == 1
            scheduler.answers_tasks = False  # an answer that arrives before the submit has ended wakes the thread
            protocol, inbox = client._core.link._protocol, client._core.link._inbox
            acts: list[float] = []
            act = protocol.act
            monkeypatch.setattr(protocol, "act", lambda now: (acts.append(now), act(now)))
            for i in range(50):
                wait_until(lambda: inbox.is_asleep, "the link sleeps")
                future = client.submit(abs, -i)
                scheduler.run(scheduler.wait_for(Task, i + 2)[-1])
                assert future.result(10) == i
                if i == 0:
                    acts.clear()  # the first task may have been sent by the thread
            assert not acts
            client.clear()
            assert acts, "whatever else is to do ends the wait"

    @pytest.mark.thorough
    def test_a_message_after_a_single_result_is_read_soon(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=60)
            for i in range(20):
                assert client.submit(abs, -i).result(10) == i
                scheduler.say(HelloRequest("a second message, which the descriptor may not tell of"))
                scheduler.wait_for(ClientHello, i + 2)

    def test_a_processor_is_kept_while_the_link_has_untaken_items(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        needs: list[Callable[[], bool]] = []
        with FakeScheduler() as scheduler:
            here = TaskContext()
            here.address = scheduler.address
            monkeypatch.setattr(here, "keep_while", lambda is_needed, _close: needs.append(is_needed))
            monkeypatch.setattr(task_context, "current", here)
            client = new_client(scheduler.address, heartbeat_interval_seconds=60)
            assert client.submit(abs, -1).result(10) == 1
            [is_needed] = needs
            link = client._core.link
            wait_until(lambda: not is_needed(), "nothing is open and the link sleeps")
            with link._turn:  # the thread is blocked
                link._put(lambda: None)
                assert is_needed()
            link.close(10)  # the next client in a task of this process would use the connection

    def test_single_submits_of_many_threads_do_not_interfere(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)

            def work(start: int) -> bool:
                return all(client.submit(abs, -i).result(10) == i for i in range(start, start + 200))

            with ThreadPoolExecutor(4) as pool:
                assert all(pool.map(work, range(0, 4000, 1000)))

    def test_an_interrupted_submit_loses_no_task(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            assert client.submit(abs, -1).result(10) == 1
            link = client._core.link
            wait_until(lambda: link._inbox.is_asleep, "the link sleeps")
            protocol = link._protocol
            send = protocol.send

            def interrupted() -> None:
                monkeypatch.setattr(protocol, "send", send)
                raise KeyboardInterrupt

            monkeypatch.setattr(protocol, "send", interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.submit(abs, -2)
            assert client.submit(abs, -3).result(10) == 3
            wait_until(lambda: not link._work.is_waiting(), "the interrupted task was said again and has ended")

    def test_a_burst_of_tasks_needs_few_messages(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address, heartbeat_interval_seconds=2)
            assert client.map(abs, [(1,)] * 5000) == [1] * 5000
            assert scheduler.message_count < 500

    def test_calls_after_the_end_of_the_link_are_refused(self) -> None:
        link = ClientLink(Endpoint.parse(NOBODY), ClientId(random_id()), 60, 2)
        link.close()
        failed: Future[None] = Future()

        class Sink:
            def fail(self, make_error: Callable[[], BaseException]) -> None:
                failed.set_exception(make_error())

            def receive_frames(self, *_: Any) -> None: ...

        link.fetch(b"1" * 16, Sink())  # type: ignore[arg-type]
        assert isinstance(failed.exception(10), DisconnectedError)
        with pytest.raises(DisconnectedError):
            link.submit(self.entry(Sink()))

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_bug_in_the_thread_of_the_link_fails_open_futures(
        self, new_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_arguments: Any) -> Any:
            raise RuntimeError("a bug")

        with FakeScheduler(answers_tasks=False) as scheduler:
            client = new_client(scheduler.address)
            futures = [client.submit(abs, n) for n in range(3)]
            scheduler.wait_for(Task, 3)
            monkeypatch.setattr(ClientConnection, "receive", fail)
            for future in futures:
                with pytest.raises(DisconnectedError, match="bug"):
                    future.result(10)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_bug_at_the_end_of_the_thread_of_the_link_fails_open_futures(
        self, new_client: Callable[..., Client]
    ) -> None:
        def fail() -> None:
            raise RuntimeError("a bug")

        with FakeScheduler(answers_tasks=False) as scheduler:
            client = new_client(scheduler.address)
            future = client.submit(abs, -1)
            scheduler.wait_for(Task, 1)
            link = client._core.link
            with link._turn:  # both are in the inbox when the thread looks
                link._inbox.put(fail)
                link._inbox.put(fail)
            with pytest.raises(DisconnectedError, match="bug"):
                future.result(10)

    def test_a_client_sends_heartbeats_and_a_goodbye(self, new_client: Callable[..., Client]) -> None:
        with FakeScheduler() as scheduler:
            client = new_client(scheduler.address)
            scheduler.wait_for(ClientHeartbeat, 3)
            client.disconnect()
            scheduler.wait_for(ClientDisconnect)
