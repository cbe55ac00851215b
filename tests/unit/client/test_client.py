from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import graphlib
import inspect
import numbers
import operator
import os
import pickle
import signal
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from scaler import AsyncClient
from scaler.client import Client
from scaler.config import ConfigError
from scaler.errors import (
    ClientShutdownException,
    DisconnectedError,
    MissingObjects,
    SerializeObjectError,
)
from scaler.pickling.serialization import CARRIED_BYTES, DEFAULT_SERIALIZER, INLINE_BYTES, DefaultSerializer, Serializer
from scaler.settings import ClientConfig
from scaler.settings.client import LOCAL_CLUSTER, NOT_LOCAL
from scaler.settings.cluster import LocalClusterOptions
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import (
    ClientDisconnect,
    GoodbyeKind,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, TaskStatus
from tests.support.faces import AnyClient, Face, ended, exception_of, user, with_client
from tests.support.fake_scheduler import FakeScheduler
from tests.support.timing import at_best


def keywords(a: int, *rest: int, b: int = 2, **others: int) -> tuple[Any, ...]:
    return a, rest, b, others


def only_keyword(a: int, *, b: int) -> int:
    return a + b


def boom(text: str) -> None:
    raise ValueError(text)


CHANGEABLE: dict[str, Callable[[], Any]] = {
    "a short list": lambda: [0],
    "a nested list": lambda: [[0] * 10_000],
    "a short bytearray": lambda: bytearray(1),
    "a bytearray": lambda: bytearray(100_000),
    "a large bytearray": lambda: bytearray(1_100_000),
    "an array": lambda: array("q", [0] * 30_000),
    "an array of NumPy": lambda: np.zeros(30_000, dtype=int),
}


def change(value: Any) -> None:
    """Change the first number inside of a value."""
    while not isinstance(inner := next(iter(value.values() if isinstance(value, dict) else value)), numbers.Integral):
        value = inner
    value[0] += 1


class TestSettings:
    def test_the_signature_of_a_client_is_stable_and_has_the_defaults_of_the_table(self) -> None:
        parameters = list(inspect.signature(Client).parameters.values())
        assert [(parameter.name, parameter.default) for parameter in parameters] == [
            ("address", None),
            ("profiling", False),
            ("timeout_seconds", 60),
            ("heartbeat_interval_seconds", 2),
            ("serializer", DEFAULT_SERIALIZER),
            ("n_workers", None),
            ("modules", ()),
            ("processes", True),
            ("dashboard", False),
            ("stream_output", False),
            ("key_file", None),
            ("trust_users", ()),
            ("name", None),
            ("keep", None),
            ("local", inspect.Parameter.empty),
        ]
        assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
        assert {row.name: row.default for row in ClientConfig.rows()} == {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.name
            not in {"serializer", "n_workers", "modules", "processes", "dashboard", "name", "keep", "local"}
        }

    @pytest.mark.parametrize("name", ["", " ", "x" * 65, "two\nlines", 5])
    def test_a_client_name_that_cannot_be_shown_is_refused(self, name: Any) -> None:
        with pytest.raises(ConfigError, match="name must be a str of 1 to 64 printable characters"):
            Client("ipc:///nobody", name=name)

    def test_each_setting_of_a_cluster_is_an_option_of_its_client(self) -> None:
        table, renamed = LOCAL_CLUSTER
        names = {renamed.get(row.name, row.name) for row in table.rows() if row.name not in NOT_LOCAL}
        assert names == set(LocalClusterOptions.__annotations__)
        assert "preload" in names
        assert not names & set(inspect.signature(AsyncClient).parameters), "others hand on what they find there"
        text = " ".join((Client.__doc__ or "").split())
        assert all(f"{name}: " in text for name in names)

    def test_arguments_are_described_in_the_words_of_the_table(self) -> None:
        text = " ".join((Client.__doc__ or "").split())
        for row in ClientConfig.rows():
            assert f"{row.name}: {row.text}." in text, row.name

    def test_an_argument_that_is_not_given_is_read_from_the_environment_or_the_file(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("scaler.toml").write_text("[client]\naddress = 'ipc:///tmp/file'\ntimeout_seconds = 7\nprofiling = true\n")
        monkeypatch.setenv("SCALER_TIMEOUT_SECONDS", "8")
        with Client(heartbeat_interval_seconds=9) as client:
            core = client._core
            assert (core.link.address, core.profiling, core.seconds) == ("ipc:///tmp/file", True, (8, 9))
        with Client("ipc:///tmp/mine", False, 60) as client:
            core = client._core
            assert (core.link.address, core.profiling, core.seconds) == ("ipc:///tmp/mine", False, (60, 2))
        monkeypatch.setenv("SCALER_ADDRESS", "nowhere")
        with pytest.raises(ConfigError, match=r"^environment variable SCALER_ADDRESS: 'nowhere' is not an address"):
            Client()

    @pytest.mark.parametrize("address", ["localhost", "tcp://host", "tcp://h:99999", "", 7])
    def test_a_bad_address_is_refused_at_once(self, address: Any) -> None:
        with pytest.raises(ConfigError):
            Client(address)

    @pytest.mark.parametrize(
        "settings",
        [
            {"timeout_seconds": "60"},
            {"timeout_seconds": 0},
            {"heartbeat_interval_seconds": -1},
            {"heartbeat_interval_seconds": None},
            {"serializer": object()},
            {"profiling": 1},
        ],
    )
    def test_a_bad_setting_is_a_value_error(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            Client("tcp://127.0.0.1:1", **settings)

    def test_the_settings_have_the_order_that_users_rely_on(self, scheduler: FakeScheduler) -> None:
        with Client(scheduler.address, True, 30, 1, DefaultSerializer()) as client:
            assert client.submit(abs, -1).result(10) == 1
            assert [RunOptions.decode(task.options).profiling for task in scheduler.of(Task)] == [True]

    def test_the_environment_names_the_scheduler(
        self, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SCALER_ADDRESS", scheduler.address)
        with Client() as client:
            assert client.submit(abs, -1).result(10) == 1


class TestMemory:
    def test_a_client_that_disconnected_keeps_nothing_of_what_it_sent(self, scheduler: FakeScheduler) -> None:
        client = Client(scheduler.address)
        reference = client.send_object(b"x" * 100_000)
        assert client.submit(len, reference).result(10) == 100_000
        large = client.submit(bytes, 100_000)
        assert large.exception(10) is None
        work = client._core.link._work
        assert (len(work._functions), len(work._stored), len(work.large.unread)) == (2, 1, 1)
        client.disconnect()
        assert (work._functions, work._stored, work.large.unread, work.out) == ({}, {}, {}, [])


class TestProfiling:
    @with_client
    async def test_profiling_is_off_unless_the_client_or_the_submit_requests_it(
        self, client: AnyClient, face: Face, scheduler: FakeScheduler
    ) -> None:
        async def flags(one: AnyClient) -> list[bool]:
            known = len(scheduler.of(Task))
            for asked in ({}, {"profiling": True}, {"profiling": False}, {"profiling": None}):
                await one.submit(abs, -1, **asked)
            await one.map(abs, [(-1,)])
            await one.map(len, [("x" * 20_000,)])
            return [RunOptions.decode(task.options).profiling for task in scheduler.of(Task)[known:]]

        assert await flags(client) == [0, 1, 0, 0, 0, 0]
        async with face(scheduler.address, profiling=True) as profiled:
            assert await flags(profiled) == [1, 1, 0, 1, 1, 1]

    @with_client
    async def test_a_graph_is_profiled_if_its_client_is(
        self, client: AnyClient, face: Face, scheduler: FakeScheduler
    ) -> None:
        await client.get({"a": (abs, -1)}, ["a"])
        async with face(scheduler.address, profiling=True) as profiled:
            await profiled.get({"a": (abs, -1)}, ["a"])
        assert [RunOptions.decode(task.options).profiling for task in scheduler.of(Task)] == [False, True]

    @with_client
    async def test_profiling_is_never_an_argument_of_the_function(self, client: AnyClient) -> None:
        assert await client.submit(keywords, 1, profiling=False) == (1, (), 2, {})
        with pytest.raises(TypeError, match="profiling must be a bool, not 'yes'"):
            client.submit(keywords, 1, profiling="yes")  # type: ignore[arg-type]


class TestSubmit:
    @with_client
    async def test_positional_and_keyword_arguments_arrive_as_given(self, client: AnyClient) -> None:
        assert await client.submit(keywords, 1, 2, 3, b=4, fn=5, self=6) == (1, (2, 3), 4, {"fn": 5, "self": 6})
        assert await client.submit(only_keyword, 1, b=2) == 3

    @pytest.mark.parametrize(
        ("arguments", "named"), [((), {}), ((1,), {}), ((1, 2), {}), ((1,), {"c": 1}), ((1,), {"b": 1, "c": 1})]
    )
    @with_client
    async def test_wrong_arguments_are_a_type_error_before_anything_is_sent(
        self, client: AnyClient, scheduler: FakeScheduler, arguments: tuple[int, ...], named: dict[str, int]
    ) -> None:
        with pytest.raises(TypeError, match="only_keyword"):
            client.submit(only_keyword, *arguments, **named)
        assert await client.submit(abs, -1) == 1
        assert len(scheduler.of(Task)) == 1

    @with_client
    async def test_functions_without_a_signature_can_be_submitted(self, client: AnyClient) -> None:
        assert await client.submit(max, 1, 2) == 2
        assert await client.submit(int, "7") == 7
        assert await client.submit(functools.partial(pow, 2), 3) == 8
        assert await client.submit([1, 1, 2].count, 1) == 2

    @with_client
    async def test_a_task_has_the_name_of_its_function_and_sends_no_other(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        futures = [client.submit(only_keyword, 1, b=2), client.submit(functools.partial(functools.partial(pow, 2)), 3)]
        futures += [client.submit(abs, -1, name="abs"), client.submit(abs, -1, name=None)]
        assert [future.name for future in futures] == ["only_keyword", "pow", "abs", "abs"]
        assert [await future for future in futures] == [3, 8, 1, 1]
        assert {task.name for task in scheduler.of(Task)} == {""}

    @with_client
    async def test_a_task_has_the_name_that_it_was_given(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        future = client.submit(only_keyword, 1, b=2, name="count the primes")
        assert await future == 3
        assert repr(future) == f"<{type(future).__name__} count the primes {future.task_id.hex()[-8:]}: finished>"
        assert [task.name for task in scheduler.of(Task)] == ["count the primes"]

    @pytest.mark.parametrize(
        ("function", "answer"),
        [
            (lambda name: name, "own"),
            (lambda *, name="default": name, "own"),
            (lambda **options: options, {"name": "own"}),
            (functools.partial(lambda name: name, name="bound"), "own"),
            (dict, {"name": "own"}),
        ],
    )
    @with_client
    async def test_a_function_that_takes_a_name_gets_it(
        self, client: AnyClient, scheduler: FakeScheduler, function: Any, answer: Any
    ) -> None:
        future = client.submit(function, name="own")
        assert await future == answer
        assert future.name in ("dict", "TestSubmit.<lambda>")
        assert scheduler.of(Task)[0].name == ""

    @with_client
    async def test_a_positional_only_parameter_called_name_leaves_the_name_to_the_task(self, client: AnyClient) -> None:
        def greet(name: str, /) -> str:
            return name

        future = client.submit(greet, "you", name="a greeting")
        assert (await future, future.name) == ("you", "a greeting")

    @with_client
    async def test_a_name_that_is_no_text_is_a_type_error(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        with pytest.raises(TypeError, match="the name of a task must be a str, not 3"):
            client.submit(only_keyword, 1, b=2, name=3)
        assert scheduler.of(Task) == []

    @with_client
    async def test_a_submitted_value_that_is_not_callable_is_a_type_error(self, client: AnyClient) -> None:
        with pytest.raises(TypeError, match="call"):
            client.submit(3)  # type: ignore[arg-type]

    @pytest.mark.parametrize("make", CHANGEABLE.values(), ids=CHANGEABLE)
    @with_client
    async def test_arguments_arrive_as_they_were_when_the_task_was_submitted(
        self, client: AnyClient, scheduler: FakeScheduler, make: Callable[[], Any]
    ) -> None:
        scheduler.answers_tasks = False
        for value in (make(), [make(), 1], {"inside": (make(),)}):
            before = repr(value)
            future = client.submit(repr, value)
            change(value)
            assert repr(value) != before
            scheduler.run(scheduler.wait_for(Task, 1, lambda task, known=future.task_id: task.task_id == known)[0])
            assert await future == before

    @pytest.mark.parametrize("make", CHANGEABLE.values(), ids=CHANGEABLE)
    @with_client
    async def test_a_generator_may_change_an_item_after_the_next_one_is_drawn(
        self, client: AnyClient, make: Callable[[], Any]
    ) -> None:
        value, before = make(), []

        def items() -> Iterator[tuple[Any]]:
            for _ in range(10):
                before.append(repr(value))
                yield (value,)
                change(value)

        assert await client.map(repr, items()) == before
        before.clear()
        assert sorted([each async for each in client.map_unordered(repr, items())]) == sorted(before)
        assert len({*before}) == 10

    @with_client
    async def test_an_argument_too_large_for_the_block_travels_with_its_task(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        assert await client.submit(len, b"x" * (INLINE_BYTES + 1)) == INLINE_BYTES + 1
        assert [instruction.kind for instruction in scheduler.of(ObjectInstruction)] == [
            InstructionKind.CREATE_FUNCTION
        ]
        (task,) = scheduler.of(Task)
        assert (task.object_ids, len(task.frames)) == (b"", 1)

    @with_client
    async def test_a_large_argument_travels_as_an_object(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        half = CARRIED_BYTES // 2
        assert await client.submit(operator.lt, b"x" * half, b"y" * half) is True
        kinds = [instruction.kind for instruction in scheduler.of(ObjectInstruction)]
        assert kinds == [InstructionKind.CREATE_FUNCTION, InstructionKind.CREATE_FOR_TASK]
        assert len(scheduler.of(Task)[0].object_ids) == 16

    @with_client
    async def test_many_inline_arguments_do_not_make_a_message_too_large(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        values = [bytes([index]) * 10_000 for index in range(50)]
        assert await client.submit(keywords, *values) == (values[0], tuple(values[1:]), 2, {})
        assert len(scheduler.of(Task)[0].payload) < 100_000

    @with_client
    async def test_a_function_is_sent_once(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        assert [(await client.submit(keywords, n))[0] for n in range(3)] == [0, 1, 2]
        assert await client.map(keywords, [(1,)]) == [(1, (), 2, {})]
        assert len(scheduler.of(ObjectInstruction)) == 1

    @with_client
    async def test_a_closure_is_serialised_at_each_submit(self, client: AnyClient) -> None:
        cell = 1

        def read() -> int:
            return cell

        assert await client.submit(read) == 1
        cell = 2
        assert await client.submit(read) == 2

    @with_client
    async def test_an_argument_that_cannot_be_serialised_is_an_error_and_later_tasks_run(
        self, client: AnyClient
    ) -> None:
        with pytest.raises(SerializeObjectError):
            client.submit(abs, threading.Lock())
        assert await client.submit(abs, -1) == 1

    @pytest.mark.thorough
    def test_many_functions_do_not_fill_the_scheduler(self, client: Client, scheduler: FakeScheduler) -> None:
        futures = [client.submit(functools.partial(pow, n), 1) for n in range(600)]
        assert [future.result(10) for future in futures] == list(range(600))
        for n in range(600, 1700):
            client.submit(functools.partial(pow, n), 1).result(10)
        scheduler.wait_for(ObjectInstruction, 500, lambda instruction: instruction.kind == InstructionKind.DELETE)
        assert len(scheduler.objects) < 1300

    def test_several_threads_may_submit(self, client: Client) -> None:
        sums: list[int] = []

        def work() -> None:
            sums.append(sum(client.submit(abs, -n).result(10) for n in range(50)))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sums == [sum(range(50))] * 8

    def test_a_serializer_of_the_users_own(self, face: Face, scheduler: FakeScheduler) -> None:
        async def test(client: AnyClient) -> None:
            assert await client.submit(keywords, 1, b=3) == (1, (), 3, {})
            assert await client.map(abs, [(-1,), (2,)]) == [1, 2]
            assert await client.get(TestGet.GRAPH, ["d", "e", "a"]) == {"d": 8, "e": 1, "a": 2}

        user(face, scheduler.address, serializer=Reversed())(test)


class Reversed(Serializer):
    def serialize(self, obj: Any) -> bytes:
        import cloudpickle

        return bytes(reversed(cloudpickle.dumps(obj)))

    def deserialize(self, payload: bytes) -> Any:
        import pickle

        return pickle.loads(bytes(reversed(payload)))


class TestGet:
    GRAPH: ClassVar[dict[str, Any]] = {
        "a": 2, "b": 3, "c": (pow, "a", "b"), "d": (max, "c", "c"), "e": (abs, -1), "f": abs, "n": None,
        "t": (boom, "text"), "text": "why", "u": (max, "t", "a"),
    }  # fmt: skip

    @with_client
    async def test_values_of_a_graph_have_the_order_of_the_keys(self, client: AnyClient) -> None:
        values = await client.get(self.GRAPH, ["d", "a", "n", "f", "e"])
        assert list(values.items()) == [("d", 8), ("a", 2), ("n", None), ("f", abs), ("e", 1)]
        assert await client.get(self.GRAPH, []) == {}
        assert await client.get(self.GRAPH, ["a"]) == {"a": 2}

    @with_client
    async def test_only_tasks_that_are_needed_are_sent(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        assert await client.get(self.GRAPH, ["d"]) == {"d": 8}
        assert [(task.graph_tasks, task.unwanted) for task in scheduler.of(Task)] == [(2, 1), (2, 0)]

    @with_client
    async def test_futures_of_a_graph_are_returned_at_once_in_the_order_of_the_keys(self, client: AnyClient) -> None:
        futures = await client.get(self.GRAPH, ["d", "a", "t"], block=False)
        assert list(futures) == ["d", "a", "t"]
        assert futures["a"].done()
        assert [future.name for future in futures.values()] == ["d", "a", "t"]
        assert await futures["d"] == 8
        assert isinstance(await exception_of(futures["t"]), ValueError)

    @with_client
    async def test_nodes_that_depend_on_a_failed_node_have_its_error(self, client: AnyClient) -> None:
        with pytest.raises(ValueError, match="why"):
            await client.get(self.GRAPH, ["d", "u"])
        futures = await client.get(self.GRAPH, ["u", "t"], block=False)
        assert [str(await exception_of(future)) for future in futures.values()] == ["why", "why"]

    @with_client
    async def test_a_graph_takes_objects_large_values_and_large_results(self, client: AnyClient) -> None:
        reference = await client.send_object([1, 2, 3])
        big = bytes(100_000)
        graph = {"r": reference, "big": big, "s": (sum, "r"), "twice": (operator.mul, "big", 2), "l": (len, "twice")}
        assert await client.get(graph, ["s", "r", "l"]) == {"s": 6, "r": [1, 2, 3], "l": 200_000}
        assert await client.get(graph, ["twice"]) == {"twice": big * 2}

    @pytest.mark.parametrize(
        ("graph", "keys", "error"),
        [
            ({"a": 1}, ["b"], KeyError),
            ({"a": 1}, ["a", "a"], KeyError),
            ({"a": (abs, "b")}, ["a"], KeyError),
            ({"a": (abs, "b"), "b": (abs, "a")}, ["a"], graphlib.CycleError),
            ({"a": (abs, 1, 2)}, ["a"], TypeError),
            ({"a": (abs, (abs, 1))}, ["a"], TypeError),
            ([], ["a"], TypeError),
            ({"a": (abs, threading.Lock())}, ["a"], SerializeObjectError),
        ],
    )
    @with_client
    async def test_a_bad_graph_is_refused_before_anything_is_sent(
        self, client: AnyClient, scheduler: FakeScheduler, graph: Any, keys: list[str], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            await client.get(graph, keys)
        assert await client.submit(abs, -1) == 1
        assert len(scheduler.of(Task)) == 1

    @with_client
    async def test_cancelling_one_future_cancels_the_graph_and_all_futures_end(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_tasks = False
        futures = await client.get(self.GRAPH, ["c", "d", "e", "a"], block=False)
        tasks = scheduler.wait_for(Task, 3)
        assert futures["d"].cancel()
        await ended(*(futures[key] for key in "cde"))
        assert all(futures[key].cancelled() for key in "cde")
        assert futures["a"].result() == 2
        (cancel,) = scheduler.wait_for(TaskCancel)
        assert cancel == TaskCancel(tasks[0].task_id, graph_id=tasks[0].graph_id)
        assert not futures["a"].cancel()

    @pytest.mark.parametrize("end", ["disconnect", "clear"])
    @with_client
    async def test_an_open_graph_ends_with_its_client(
        self, client: AnyClient, scheduler: FakeScheduler, end: str
    ) -> None:
        scheduler.answers_tasks = False
        futures = await client.get(self.GRAPH, ["c", "d"], block=False)
        scheduler.wait_for(Task, 2)
        await getattr(client, end)()
        for future in futures.values():
            with pytest.raises(asyncio.CancelledError):
                await future

    @with_client
    async def test_after_a_lost_connection_the_whole_graph_is_resent_and_only_open_results_are_requested(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_tasks = False
        futures = await client.get(self.GRAPH, ["c", "d"], block=False)
        first, second = scheduler.wait_for(Task, 2)
        scheduler.say(TaskResult(first.task_id, TaskStatus.SUCCESS, pickle.dumps(8), 0))
        assert await futures["c"] == 8
        scheduler.answers_tasks = True
        scheduler.send_bytes(b"garbage")
        assert await futures["d"] == 8
        again = scheduler.of(Task)[2:]
        assert [(task.task_id, task.unwanted) for task in again] == [(first.task_id, 1), (second.task_id, 0)]

    def test_an_interrupt_cancels_the_graph(self, client: Client, scheduler: FakeScheduler) -> None:
        scheduler.answers_tasks = False

        def interrupt() -> None:
            scheduler.wait_for(Task, 2)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.get(self.GRAPH, ["d"])
        thread.join()
        scheduler.wait_for(TaskCancel)

    def test_a_graph_without_a_scheduler_is_a_timeout_error(self, face: Face) -> None:
        async def test(client: AnyClient) -> None:
            with pytest.raises(TimeoutError, match="no scheduler answered"):
                await client.get(self.GRAPH, ["d"])

        user(face, "tcp://127.0.0.1:1", timeout_seconds=0.2)(test)


class TestObjects:
    @with_client
    async def test_an_object_is_sent_once_for_many_tasks(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        reference = await client.send_object([1, 2, 3], name="numbers")
        assert await client.submit(sum, reference) == 6
        assert (await client.submit(keywords, 1, x=reference))[3] == {"x": [1, 2, 3]}
        assert await client.map(len, [(reference,)] * 3) == [3, 3, 3]
        created = [item for item in scheduler.of(ObjectInstruction) if item.name == "numbers"]
        assert len(created) == 1
        with pytest.raises(TypeError, match="must be a str"):
            await client.send_object(1, name=2)  # type: ignore[arg-type]

    @with_client
    async def test_an_object_is_deleted_after_its_last_reference_and_its_tasks(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_tasks = False
        future = client.submit(sum, await client.send_object([1, 2]))
        await asyncio.sleep(0)  # the loop drops what it has returned in this turn
        gc.collect()
        (task,) = scheduler.wait_for(Task)
        scheduler.run(task)
        assert await future == 3
        gone = scheduler.wait_for(ObjectInstruction, 1, lambda item: item.kind == InstructionKind.DELETE)
        assert gone[0].object_id == task.object_ids

    @with_client
    async def test_clear_cancels_and_forgets(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        reference = await client.send_object("x")
        scheduler.answers_tasks = False
        future = client.submit(abs, 1)
        scheduler.wait_for(Task)
        await client.clear()
        assert future.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await future
        with pytest.raises(MissingObjects, match="clear"):
            client.submit(len, reference)
        scheduler.wait_for(TaskCancel)
        scheduler.wait_until(lambda: not scheduler.objects)
        scheduler.answers_tasks = True
        assert await client.submit(abs, -1) == 1
        assert await client.submit(len, await client.send_object("xyz")) == 3

    @with_client
    async def test_a_reference_inside_a_value_that_is_no_container_is_refused(self, client: AnyClient) -> None:
        reference = await client.send_object(1)
        with pytest.raises(SerializeObjectError, match=r"on its own or in a list, tuple, set or dict.* its as_is"):
            client.submit(len, [functools.partial(print, reference)])


class TestEnd:
    @with_client
    async def test_disconnect_cancels_tasks_sends_a_goodbye_and_may_be_repeated(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_tasks = False
        future = client.submit(abs, 1)
        scheduler.wait_for(Task)
        await client.disconnect()
        await client.disconnect()
        assert future.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await future
        (goodbye,) = scheduler.wait_for(ClientDisconnect)
        assert goodbye.kind == GoodbyeKind.DISCONNECT

    @with_client
    async def test_a_disconnected_client_raises_an_error_that_says_so(self, client: AnyClient) -> None:
        reference = await client.send_object(1)
        await client.disconnect()
        uses: list[Callable[[], Any]] = [
            lambda: client.submit(abs, 1),
            lambda: client.map(abs, [(1,)]),
            lambda: client.send_object(1),
            lambda: client.get({"a": (abs, 1)}, ["a"]),
            client.clear,
            client.info,
            client.shutdown,
            lambda: client.submit(abs, reference),
        ]
        for each in uses:
            with pytest.raises(DisconnectedError, match="disconnected"):
                await each()

    @pytest.mark.thorough
    def test_no_future_stays_open_when_threads_submit_while_the_client_disconnects(
        self, scheduler: FakeScheduler
    ) -> None:
        scheduler.answers_tasks = False
        for _ in range(4):
            client = Client(scheduler.address)
            futures: list[Any] = []

            def submit_until_refused(client: Client = client, futures: list[Any] = futures) -> None:
                with contextlib.suppress(DisconnectedError):
                    while True:
                        futures.append(client.submit(abs, 1))

            threads = [threading.Thread(target=submit_until_refused) for _ in range(4)]
            for thread in threads:
                thread.start()
            client.disconnect()
            for thread in threads:
                thread.join()
            assert len(wait(futures, timeout=10).not_done) == 0
            assert all(future.cancelled() for future in futures)

    def test_disconnecting_without_a_scheduler_is_quick(self) -> None:
        def seconds() -> float:
            started = time.monotonic()
            client = Client("tcp://127.0.0.1:1")
            future = client.submit(abs, 1)
            client.disconnect()
            assert future.cancelled()
            return time.monotonic() - started

        assert at_best(seconds, 0.5) < 0.5  # 0.01 in fact

    def test_a_client_leaves_no_descriptor_and_no_thread(self, scheduler: FakeScheduler) -> None:
        def descriptors() -> int:
            return len(list(Path("/dev/fd").iterdir()))

        with Client(scheduler.address) as client:
            client.submit(abs, 1).result(10)
        before, threads = descriptors(), threading.active_count()
        for _ in range(5):
            with Client(scheduler.address) as client:
                client.submit(abs, 1).add_done_callback(lambda future: None)
                client.submit(abs, 1).result(10)
        scheduler.wait_for(ClientDisconnect, 6)
        deadline = time.monotonic() + 60
        while (descriptors() > before or threading.active_count() > threads) and time.monotonic() < deadline:
            threading.Event().wait(0.01)  # ZeroMQ closes the other end's descriptors in its own time
        assert descriptors() <= before
        assert threading.active_count() <= threads

    @with_client
    async def test_a_refused_shutdown_leaves_the_client_usable(
        self, client: AnyClient, scheduler: FakeScheduler
    ) -> None:
        scheduler.refuses_shutdown_because = "this scheduler is protected"
        with pytest.raises(ClientShutdownException, match="protected"):
            await client.shutdown()
        assert await client.submit(abs, -1) == 1

    @with_client
    async def test_an_accepted_shutdown_disconnects(self, client: AnyClient, scheduler: FakeScheduler) -> None:
        await client.shutdown()
        assert scheduler.of(ClientDisconnect)[0].kind == GoodbyeKind.SHUTDOWN
        with pytest.raises(DisconnectedError):
            client.submit(abs, 1)

    @pytest.mark.processes
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_copy_is_refused_and_harmless(self, client: Client, scheduler: FakeScheduler) -> None:
        scheduler.answers_tasks = False
        future = client.submit(abs, -1)
        scheduler.wait_for(Task)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                errors = []
                for use in (lambda: client.submit(abs, 1), lambda: future.result(10)):
                    try:
                        use()
                    except DisconnectedError as error:
                        errors.append("forked" in str(error))
                client.disconnect()
                code = 0 if errors == [True, True] else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        scheduler.run(scheduler.of(Task)[0])
        assert future.result(10) == 1
