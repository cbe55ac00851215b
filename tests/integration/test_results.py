"""What a user gets back: values, exceptions, order. One cluster for all tests."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import gc
import operator
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, DefaultSerializer, Serializer
from scaler.errors import (
    DeserializeObjectError,
    DisconnectedError,
    MissingObjects,
    SerializeObjectError,
    TaskFailedError,
)
from tests.support.processes import wait_until


def add(a: int, b: int = 10, *, scale: int = 1, **more: int) -> int:
    return (a + b) * scale + sum(more.values())


def fail(text: str) -> None:
    raise KeyError(text)


def test_a_submitted_task_gives_its_result(client: Client) -> None:
    assert client.submit(add, 1, 2).result(30) == 3


def test_keyword_only_default_and_extra_keyword_arguments_arrive_as_given(client: Client) -> None:
    assert client.submit(add, 1).result(30) == 11
    assert client.submit(add, 1, scale=3).result(30) == 33
    assert client.submit(add, a=1, b=2, scale=2, x=100, y=200).result(30) == 306


def test_missing_and_unknown_arguments_are_refused_before_anything_is_sent(client: Client) -> None:
    def exact(a: int, *, b: int) -> int:
        return a + b

    for call in (
        lambda: client.submit(exact, 1),
        lambda: client.submit(exact, 1, b=1, c=2),
        lambda: client.submit(exact, 1, 2),
    ):
        with pytest.raises(TypeError):
            call()
    assert client.submit(exact, 1, b=2).result(30) == 3


def test_callables_of_all_kinds_work(client: Client) -> None:
    class Adder:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, x: int) -> int:
            return self.n + x

        def method(self, x: int) -> int:
            return self.n * x

    n = 5
    assert client.submit(max, 3, 7).result(30) == 7
    assert client.submit(int, "42").result(30) == 42
    assert client.submit(time.sleep, 0.001).result(30) is None
    assert client.submit(lambda x: x + n, 1).result(30) == 6
    assert client.submit(functools.partial(add, 1), 2, scale=2).result(30) == 6
    assert client.submit(Adder(3), 4).result(30) == 7
    assert client.submit(Adder(3).method, 4).result(30) == 12
    assert client.submit(operator.itemgetter(1), [1, 2]).result(30) == 2


def test_a_closure_is_taken_as_it_is_at_each_submit(client: Client) -> None:
    n = 1

    def read() -> int:
        return n

    first = client.submit(read)
    n = 2
    second = client.submit(read)
    assert (first.result(30), second.result(30)) == (1, 2)


def test_arguments_are_taken_as_they_are_at_submit(client: Client) -> None:
    values = [1, 2, 3]
    future = client.submit(sum, values)
    values.append(1000)
    assert future.result(30) == 6


@pytest.mark.parametrize("size", [0, 1, 16 * 1024 - 100, 16 * 1024, 64 * 1024, 1_000_000, 20_000_000])
def test_values_of_any_size_come_back_as_they_were(client: Client, size: int) -> None:
    data = os.urandom(size)
    assert client.submit(lambda x: x, data).result(30) == data


def test_map_gives_results_in_order(client: Client) -> None:
    assert client.map(add, [(i, i) for i in range(5000)]) == [2 * i for i in range(5000)]
    assert client.map(add, []) == []
    assert client.map(add, ((i,) for i in range(3))) == [10, 11, 12]
    assert client.map(add, [[1, 2]]) == [3]


def test_map_refuses_items_that_are_not_tuples_or_lists(client: Client) -> None:
    for items in ([1, 2], [(1,), "x"], ["ab"]):
        with pytest.raises(TypeError):
            client.map(add, items)
    assert client.map(add, [(1, 1)]) == [2]


def test_map_raises_the_exception_of_a_task_and_the_client_stays_usable(client: Client) -> None:
    def odd(i: int) -> int:
        if i % 2:
            raise ValueError(i)
        return i

    with pytest.raises(ValueError):
        client.map(odd, [(i,) for i in range(1000)])
    assert client.map(odd, [(2,)]) == [2]


def test_map_with_a_timeout_gives_up_in_time(client: Client) -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        client.map(time.sleep, [(60,)], timeout=0.3)
    assert time.monotonic() - start < 30
    assert client.submit(add, 1, 1).result(30) == 2


def test_large_results_of_a_map_arrive(client: Client) -> None:
    assert [len(value) for value in client.map(lambda n: b"x" * n, [(100_000,)] * 5)] == [100_000] * 5


def test_an_exception_keeps_its_type_and_shows_where_it_was_raised(client: Client) -> None:
    with pytest.raises(KeyError, match="gone") as caught:
        client.submit(fail, "gone").result(30)
    assert "in fail" in str(caught.value.__cause__)
    assert isinstance(client.submit(fail, "x").exception(30), KeyError)


def test_results_and_arguments_that_cannot_be_pickled_fail_only_their_task(client: Client) -> None:
    with pytest.raises(SerializeObjectError):
        client.submit(threading.Lock).result(30)
    with pytest.raises(SerializeObjectError, match="lock"):
        client.submit(add, threading.Lock())
    lock = threading.Lock()
    with pytest.raises(SerializeObjectError):
        client.submit(lambda: lock)
    assert client.submit(add, 1, 1).result(30) == 2


class RefusedError(Exception):
    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


def refuse(code: int) -> None:
    raise RefusedError(code, reason="not today")


def test_an_exception_with_a_constructor_of_its_own_keeps_its_type_and_attributes(client: Client) -> None:
    with pytest.raises(RefusedError, match="403: not today") as caught:
        client.submit(refuse, 403).result(30)
    assert caught.value.code == 403
    assert "in refuse" in str(caught.value.__cause__)


def test_an_exception_that_cannot_be_pickled_arrives_as_text(client: Client) -> None:
    def fail_badly() -> None:
        class OddError(Exception):
            def __init__(self) -> None:
                super().__init__("odd one")
                self.lock = threading.Lock()

        raise OddError

    with pytest.raises(TaskFailedError, match="odd one") as caught:
        client.submit(fail_badly).result(30)
    assert "OddError" in str(caught.value)
    assert "fail_badly" in str(caught.value.__cause__) or "fail_badly" in str(caught.value)


def test_an_exception_class_that_exists_only_on_the_worker_arrives_as_text(client: Client) -> None:
    def fail_with_foreign_class() -> None:
        import sys
        import types

        module = types.ModuleType("only_there")
        exec("class Foreign(Exception): pass", module.__dict__)
        sys.modules["only_there"] = module
        raise module.Foreign("from far away")

    with pytest.raises(TaskFailedError, match="from far away") as caught:
        client.submit(fail_with_foreign_class).result(30)
    assert "Foreign" in str(caught.value)


def test_an_argument_that_cannot_be_read_on_the_worker_fails_only_its_task(client: Client) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (_raise, ("not here",))

    with pytest.raises(DeserializeObjectError, match="not here"):
        client.submit(add, Trap()).result(30)
    assert client.submit(add, 1, 1).result(30) == 2


def _raise(text: str) -> None:
    raise RuntimeError(text)


def exit_for(wrong: bool) -> None:
    if wrong:
        raise SystemExit("bad input")


def interrupt() -> None:
    raise KeyboardInterrupt


def test_sys_exit_in_a_task_is_a_failure_of_that_task(client: Client) -> None:
    import sys

    with pytest.raises(TaskFailedError, match=r"task exit called sys.exit\(3\): return a result or raise"):
        client.submit(sys.exit, 3).result(30)
    with pytest.raises(TaskFailedError, match=r"item 1 of the map\) called sys.exit\('bad input'\)"):
        client.map(exit_for, [(False,), (True,)])
    with pytest.raises(TaskFailedError, match="raised KeyboardInterrupt"):
        client.submit(interrupt).result(30)
    assert client.submit(add, 1, 1).result(30) == 2


def test_a_deep_recursion_is_a_failure_of_that_task(client: Client) -> None:
    def deep(n: int) -> int:
        return deep(n + 1)

    with pytest.raises(RecursionError):
        client.submit(deep, 0).result(30)


def test_an_object_is_sent_once_and_used_by_many(client: Client) -> None:
    reference = client.send_object(b"x" * 1_000_000, name="numbers")
    assert (reference.name, reference.size > 1_000_000 - 1) == ("numbers", True)
    assert client.map(len, [(reference,)] * 20) == [1_000_000] * 20
    assert client.submit(add, 1, b=client.send_object(5)).result(30) == 6


def test_after_clear_old_references_are_missing_and_the_client_is_usable(client: Client) -> None:
    reference = client.send_object([1, 2, 3])
    open_future = client.submit(time.sleep, 30)
    client.clear()
    assert open_future.cancelled()
    with pytest.raises(MissingObjects):
        client.submit(sum, reference).result(30)
    assert client.submit(sum, client.send_object([1, 2])).result(30) == 3


def test_a_custom_serializer_is_used_for_arguments_and_results(address: str) -> None:
    class Counting(Serializer):
        def __init__(self) -> None:
            self.default = DefaultSerializer()

        def serialize(self, obj: Any) -> bytes:
            return b"mine" + self.default.serialize(obj)

        def deserialize(self, payload: bytes) -> Any:
            assert payload.startswith(b"mine")
            return self.default.deserialize(payload[4:])

    with Client(address, serializer=Counting()) as client:
        assert client.submit(add, 1, 2).result(30) == 3
        assert client.map(len, [("x" * 50_000,)] * 3) == [50_000] * 3
        with pytest.raises(KeyError):
            client.submit(fail, "x").result(30)


def test_futures_work_with_the_standard_library(client: Client) -> None:
    futures = [client.submit(add, i, i) for i in range(20)]
    assert sorted(f.result() for f in concurrent.futures.as_completed(futures, timeout=30)) == [
        2 * i for i in range(20)
    ]
    done, not_done = concurrent.futures.wait([client.submit(add, 1, 1), client.submit(time.sleep, 0.1)], timeout=30)
    assert (len(done), len(not_done)) == (2, 0)

    async def gather() -> list[int]:
        wrapped = [asyncio.wrap_future(client.submit(add, i, 0)) for i in range(3)]
        return [*(await asyncio.gather(*wrapped)), await client.submit(add, 3, 0)]

    assert asyncio.run(gather()) == [0, 1, 2, 3]


def test_a_callback_is_called_with_the_future(client: Client) -> None:
    called = threading.Event()
    future = client.submit(add, 1, 1)
    future.add_done_callback(lambda f: called.set() if f is future else None)
    assert called.wait(30)


def test_result_with_a_timeout_gives_up_in_time_and_can_be_asked_again(client: Client) -> None:
    future = client.submit(time.sleep, 1.5)
    with pytest.raises(concurrent.futures.TimeoutError):  # the builtin one since Python 3.11
        future.result(timeout=0.05)
    assert future.running()
    assert future.result(30) is None
    assert future.done()


def touch_and_sleep(path: Path) -> None:
    path.touch()
    time.sleep(60)


def test_a_running_task_is_stopped_by_cancel_and_its_worker_is_free_again(client: Client, tmp_path: Path) -> None:
    running = [client.submit(touch_and_sleep, tmp_path / str(i)) for i in range(2)]
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both are running")
    assert all(future.cancel() for future in running)
    assert all(future.cancelled() for future in running)
    start = time.monotonic()
    assert client.map(add, [(1, 1)] * 4) == [2] * 4
    assert time.monotonic() - start < 50
    with pytest.raises(concurrent.futures.CancelledError):
        running[0].result(1)
    finished = client.submit(add, 1, 1)
    finished.result(30)
    assert not finished.cancel()


def test_clients_are_used_from_several_threads_at_once(client: Client) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda k: sum(client.map(add, [(i, k) for i in range(200)])), range(8)))
    assert sums == [sum(i + k for i in range(200)) for k in range(8)]


def test_disconnect_cancels_open_tasks_and_the_scheduler_continues(address: str) -> None:
    client = Client(address)
    future = client.submit(time.sleep, 60)
    client.disconnect()
    client.disconnect()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(5)
    for use in (
        lambda: client.submit(add, 1, 1),
        lambda: client.map(add, [(1, 1)]),
        lambda: client.send_object(1),
        client.clear,
    ):
        with pytest.raises(DisconnectedError, match="disconnect"):
            use()
    with Client(address) as other:
        assert other.submit(add, 1, 1).result(30) == 2


def test_numpy_like_buffers_arrive_without_loss(client: Client) -> None:
    assert client.submit(lambda data: bytes(data[:3]), bytearray(b"abc" * 100_000)).result(30) == b"abc"


class Held:
    """Something large of a user."""


CALLS: dict[str, Callable[[Client, str], object]] = {
    "map": lambda client, _: client.map(fail, [("x",)]),
    "map_unordered": lambda client, _: list(client.map_unordered(fail, [("x",)])),
    "a map with a job": lambda client, name: client.map(fail, [("x",)], job=name),
    "map_unordered with a job": lambda client, name: list(client.map_unordered(fail, [("x",)], job=name)),
    "the results of a job": lambda client, name: list(client.start(fail, [("x",)], name).results()),
    "as_completed of a job": lambda client, name: list(client.start(fail, [("x",)], name).as_completed()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_failed_call_keeps_nothing_of_its_caller_until_a_garbage_collection(
    call: Callable[[Client, str], object], tmp_path: Path
) -> None:
    def run(client: Client) -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(KeyError) as caught:
            call(client, "a job")
        del caught
        return weakref.ref(held)

    with Client(n_workers=1, keep=tmp_path) as own:
        gc.disable()
        try:
            assert run(own)() is None
        finally:
            gc.enable()
