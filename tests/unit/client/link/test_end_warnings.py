"""EndWarnings: the end of a client warns about cancelled tasks and unread errors only."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import logging
import sys
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import pytest

from scaler import AsyncClient, Client
from scaler.client.link import end_warnings
from scaler.client.link.end_warnings import EndWarnings, ends_by_exception
from scaler.client.outcome import headline_of
from scaler.wire.messages.client import Task
from tests.support.fake_scheduler import FakeScheduler

SECONDS = 30


def fail(what: str = "lost?") -> None:
    raise ValueError(what)


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "scaler.client"):
        yield caplog


CANCELLED = (
    "3 open tasks were cancelled, because the client has ended: wait for the futures first "
    "(future.result() or concurrent.futures.wait(futures))"
)
ONE_CANCELLED = (
    "1 open task was cancelled, because the client has ended: wait for the futures first "
    "(await or asyncio.wait(futures))"
)
ONE_UNREAD = "1 task has failed, and its error was not read: ValueError: lost? in fail"


class TestOpenTasks:
    def test_open_tasks_at_the_end_are_counted_and_their_errors_say_why(self, said: pytest.LogCaptureFixture) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler:
            with Client(scheduler.address) as client:
                first = client.submit(abs, 1)
                open_ones = [first, client.submit(abs, first), client.get({"a": (abs, 1)}, ["a"], block=False)["a"]]
                client.submit(abs, 1).cancel()
            client.disconnect()
        assert said.messages == [CANCELLED]
        for future in open_ones:
            with pytest.raises(CancelledError, match="because its client has ended: wait for the future first"):
                future.result(SECONDS)

    def test_tasks_cancelled_by_the_user_and_those_of_maps_cause_no_warning(
        self, said: pytest.LogCaptureFixture
    ) -> None:
        with FakeScheduler(answers_tasks=False) as scheduler, Client(scheduler.address) as client:
            futures = [client.submit(abs, 1) for _ in range(3)]
            futures[0].cancel()
            client.clear()
            results = client.map_unordered(float, ((n,) for n in range(10)), window=5)
            mapped = client._core.functions.get(float).instruction.object_id
            with pytest.raises(TimeoutError):
                client.map(abs, [(1,)] * 10, timeout=0)
            with concurrent.futures.ThreadPoolExecutor() as threads:
                reading = threads.submit(next, results)  # type: ignore[arg-type]
                scheduler.wait_for(Task, 5, where=lambda task: task.function_id == mapped)
                client.disconnect()
                with pytest.raises(CancelledError, match="its client has ended"):
                    reading.result(SECONDS)
        assert said.messages == []
        with pytest.raises(CancelledError, match=r"^task abs: it was cancelled$"):
            futures[1].result()

    @pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt(), SystemExit(0), None])
    def test_a_client_block_that_ends_by_an_exception_causes_no_further_warning(
        self, error: BaseException | None, said: pytest.LogCaptureFixture
    ) -> None:
        def run(address: str) -> None:
            with Client(address) as client:
                for _ in range(3):
                    client.submit(abs, 1)
                if error is not None:
                    raise error

        ends = pytest.raises(type(error)) if error is not None else contextlib.nullcontext()
        with FakeScheduler(answers_tasks=False) as scheduler, ends:
            run(scheduler.address)
        is_quiet = error is not None and not isinstance(error, SystemExit)
        assert said.messages == ([] if is_quiet else [CANCELLED])

    def test_asyncio_clients_have_the_same_warnings(self, said: pytest.LogCaptureFixture) -> None:
        async def main(address: str) -> None:
            async with AsyncClient(address) as client:
                future = client.submit(abs, 1)
                client.submit(abs, 2).cancel()
            with pytest.raises(
                asyncio.CancelledError, match=r"^task abs: it was cancelled, because its client has end"
            ):
                await future

        async def fails(address: str) -> None:
            async with AsyncClient(address) as client:
                client.submit(abs, 1)
                raise KeyError

        with FakeScheduler(answers_tasks=False) as scheduler:
            asyncio.run(main(scheduler.address))
            assert said.messages == [ONE_CANCELLED]
            with pytest.raises(KeyError):
                asyncio.run(fails(scheduler.address))
            assert said.messages == [ONE_CANCELLED]

    def test_a_garbage_collected_client_warns_about_open_tasks(
        self, scheduler: FakeScheduler, said: pytest.LogCaptureFixture
    ) -> None:
        scheduler.answers_tasks = False
        client: Client | None = Client(scheduler.address)
        assert client is not None
        future = client.submit(abs, 1)
        link = client._core.link
        scheduler.wait_for(Task)
        link.close(0)  # as the collector does in another thread
        link._thread.join(SECONDS)
        assert said.messages[0].startswith("1 open task was cancelled")
        assert future.cancelled()


async def _awaited(future: Any) -> Any:
    return await future


READ: dict[str, Callable[[Any], object]] = {
    "result": lambda future: future.result(),
    "exception": lambda future: future.exception(),
    "await": lambda future: asyncio.run(_awaited(future)),
    "explain": lambda future: future.explain(),
    "callback": lambda future: future.add_done_callback(lambda done: done.exception()),
}


class TestErrors:
    def test_unread_errors_are_counted_even_if_their_futures_were_collected(
        self, scheduler: FakeScheduler, said: pytest.LogCaptureFixture
    ) -> None:
        with Client(scheduler.address) as client:
            kept = client.submit(fail, "lost?\nin two lines")
            gone = weakref.ref(client.submit(fail))
            concurrent.futures.wait([kept])
            client.submit(abs, 1).result(SECONDS)
            gc.collect()
            assert gone() is None
            assert not kept.cancel()
        (line,) = said.messages
        assert line == (
            "2 tasks have failed, and their errors were not read; the first: ValueError: lost? in two lines in fail"
        )

    @pytest.mark.parametrize("way", READ)
    def test_an_error_that_was_read_causes_no_warning(
        self, way: str, scheduler: FakeScheduler, said: pytest.LogCaptureFixture
    ) -> None:
        with Client(scheduler.address) as client:
            before, after = client.submit(fail), client.submit(fail)
            concurrent.futures.wait([after])
            for future in (before, after):
                with contextlib.suppress(ValueError):
                    READ[way](future)
            unread = client.submit(fail)
            concurrent.futures.wait([unread])
        assert said.messages == [ONE_UNREAD]

    def test_the_unread_error_of_a_graph_counts_once(
        self, scheduler: FakeScheduler, said: pytest.LogCaptureFixture
    ) -> None:
        graph = {"a": (fail,), **{f"b{n}": (abs, "a") for n in range(3)}}
        keys = ["b0", "b1", "b2"]
        with Client(scheduler.address) as client:
            with pytest.raises(ValueError, match="lost"):
                client.get(graph, keys)
            read, unread = client.get(graph, keys, block=False), client.get(graph, keys, block=False)
            assert isinstance(read["b1"].exception(SECONDS), ValueError)
            concurrent.futures.wait([*read.values(), *unread.values()])
        assert said.messages == ["1 task has failed, and its error was not read: ValueError: lost? in b0"]

    def test_errors_of_maps_and_executors_cause_no_warning(
        self, scheduler: FakeScheduler, said: pytest.LogCaptureFixture
    ) -> None:
        with Client(scheduler.address) as client:
            client.map(fail, [()] * 3, return_exceptions=True)
            list(client.map_unordered(fail, [()] * 3, return_exceptions=True))
            with pytest.raises(ValueError, match="lost"):
                client.map(fail, [()] * 3)
            with client.as_executor() as executor:
                executor.submit(fail)
        assert said.messages == []

    def test_asyncio_clients_have_the_same_warnings(
        self, scheduler: FakeScheduler, said: pytest.LogCaptureFixture
    ) -> None:
        async def main(test: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
            async with AsyncClient(scheduler.address) as client:
                await asyncio.wait_for(test(client), SECONDS)

        async def reads(client: AsyncClient) -> None:
            with pytest.raises(ValueError, match="lost"):
                await client.submit(fail)
            await asyncio.gather(client.submit(fail), client.submit(fail), return_exceptions=True)
            with pytest.raises(ValueError, match="lost"):
                await client.map(fail, [()] * 5)
            await client.map(fail, [()] * 5, return_exceptions=True)

        async def does_not(client: AsyncClient) -> None:
            await asyncio.wait([client.submit(fail)])

        asyncio.run(main(reads))
        assert said.messages == []
        asyncio.run(main(does_not))
        assert said.messages == [ONE_UNREAD]

    def test_the_number_of_counted_unread_errors_is_limited(
        self, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(end_warnings, "COUNTED_MOST", 5)
        ends = EndWarnings("", is_nested=False)
        for number in range(10):
            ends.note_error(bytes([number]), lambda: "first")
        ends.log_warnings()
        ends.log_warnings()
        assert said.messages == ["5 or more tasks have failed, and their errors were not read; the first: first"]
        ends.note_error(b"graph", lambda: headline_of(ValueError("a" * 1000)))
        ends.error_was_read(b"other graph", is_of_graph=True)
        ends.note_error(b"other graph", lambda: "other")
        ends.log_warnings()
        assert said.messages[1] == f"1 task has failed, and its error was not read: ValueError: {'a' * 200}..."

    def test_the_last_of_many_unread_errors_is_named(self, said: pytest.LogCaptureFixture) -> None:
        ends = EndWarnings("", is_nested=False)
        for number in range(100):
            ends.note_error(bytes([number]), partial(str, number))
        for number in range(99):
            ends.error_was_read(bytes([number]))
        ends.log_warnings()
        assert said.messages == ["1 task has failed, and its error was not read: 99"]

    def test_a_client_inside_a_task_warns_about_nothing(self, said: pytest.LogCaptureFixture) -> None:
        ends = EndWarnings("", is_nested=True)
        ends.cancelled = 3
        ends.note_error(b"1", lambda: "first")
        ends.log_warnings()
        assert said.messages == []


def test_the_end_of_a_program_by_an_exception_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "last_value", raising=False)
    monkeypatch.delattr(sys, "ps1", raising=False)
    assert not ends_by_exception()
    monkeypatch.setattr(sys, "last_value", KeyError(), raising=False)
    assert ends_by_exception()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # it was printed long ago
    assert not ends_by_exception()
