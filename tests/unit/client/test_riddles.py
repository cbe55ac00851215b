"""Error messages that a newcomer understands."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

import scaler
from scaler import AsyncClient, Client, DeserializeObjectError, DisconnectedError, SerializeObjectError
from scaler.pickling.pickled_functions import what_pickle_depends_on
from scaler.wire.messages.client import Task
from tests.support.faces import AnyClient, Face, ended, with_client
from tests.support.fake_scheduler import FakeScheduler
from tests.unit.transport.test_lookup import UNKNOWN

lock = threading.Lock()


class HoldsALock:
    def __init__(self) -> None:
        self.lock = lock

    def run(self) -> None:
        """Never runs."""


def uses_a_lock() -> None:
    with lock:
        pass


uses_a_lock.__module__ = "__main__"  # so it is pickled by value


def takes_rows(number: int, rows: list[Any], *others: Any) -> None: ...


async def later(value: int) -> int:
    return value


async def one_by_one() -> AsyncIterator[int]:
    yield 1


class Callee:
    async def method(self) -> None: ...


@pytest.mark.parametrize("function", [later, one_by_one, partial(later, 1), Callee().method])
@with_client
async def test_a_coroutine_function_is_refused_before_anything_is_sent(
    client: AnyClient, scheduler: FakeScheduler, function: Callable[..., Any]
) -> None:
    for call in (
        lambda: client.submit(function),
        lambda: client.map(function, [()]),
        lambda: client.get({"a": (function,)}, ["a"]),
    ):
        with pytest.raises(TypeError, match=r"is a coroutine function .* calls asyncio.run\("):
            await call()
    assert scheduler.of(Task) == []


@with_client
async def test_the_error_for_a_value_that_cannot_be_serialised_names_it(client: AnyClient) -> None:
    because = r"cannot be serialised: cannot pickle '_thread.lock' object"
    with pytest.raises(
        SerializeObjectError,
        match=f"the function uses_a_lock, because of its global 'lock' \\(_thread.lock\\), {because}",
    ):
        client.submit(uses_a_lock)
    with pytest.raises(SerializeObjectError, match=r", because of its object\.lock \(_thread\.lock\), cannot be"):
        client.submit(HoldsALock().run)
    with pytest.raises(
        SerializeObjectError,
        match=f"^print: argument 2: a value of type dict, because of its \\['k'\\] \\(_thread.lock\\), {because}",
    ) as caught:
        client.submit(print, 1, {"k": lock})
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(
        SerializeObjectError,
        match=f"^takes_rows: argument 2 \\('rows'\\): a value of type list, because of its \\[0\\] .*, {because}",
    ):
        client.submit(takes_rows, 1, [lock])
    with pytest.raises(SerializeObjectError, match=f"^takes_rows: argument 3: a value of type lock {because}"):
        client.submit(takes_rows, 1, [], lock)
    with pytest.raises(
        SerializeObjectError,
        match=f"^print: the argument 'sep': a value of type lock {because}; pass what it is made from, and make it",
    ):
        client.submit(print, 1, sep=lock)
    made_inside = "; make it inside the function$"
    parts = "; pass what it is made from, and make it inside the task$"
    graphs: tuple[tuple[dict[str, Any], str], ...] = (
        (
            {"a": (takes_rows, 1, [lock])},
            rf"a': takes_rows: argument 2 \('rows'\): a value .* \[0\] .*{because}{parts}",
        ),
        ({"a": (takes_rows, "b", lock), "b": (int,)}, rf"a': takes_rows: argument 2 \('rows'\): .* {because}{parts}"),
        ({"a": (print, "b"), "b": lock}, f"b', which the node 'a' needs: a value of type lock {because}{parts}"),
        ({"a": (uses_a_lock,)}, f"a': the function uses_a_lock, .*, {because}{made_inside}"),
    )
    for graph, text in graphs:
        with pytest.raises(SerializeObjectError, match=f"^the node '{text}"):
            await client.get(graph, ["a"])
    with pytest.raises(TypeError, match=r"^the node 'a': takes_rows: missing a required argument: 'rows'"):
        await client.get({"a": (takes_rows, 1)}, ["a"])
    with pytest.raises(SerializeObjectError, match=f"^the object 'curve': a value of type lock {because}{parts}"):
        await client.send_object(lock, name="curve")
    with pytest.raises(SerializeObjectError, match=f"^the object: a value of type lock {because}{parts}"):
        await client.send_object(lock)
    with pytest.raises(SerializeObjectError, match=r"^item 1 of the map: print: argument 1: a value of type lock"):
        await client.map(print, [(1,), (lock,)])


@with_client
async def test_the_error_of_a_map_names_the_item_that_cannot_be_sent(client: AnyClient) -> None:
    for call in (client.map, lambda fn, items: anext(client.map_unordered(fn, items))):
        with pytest.raises(
            SerializeObjectError, match=r"^item 1 of the map: takes_rows: argument 2 \('rows'\): a value"
        ):
            await call(takes_rows, [(1, 2), (1, lock)])
        with pytest.raises(TypeError, match=r"^item 1 of the map: takes_rows: missing a required argument: 'rows'"):
            await call(takes_rows, [(1, 2), (1,)])


class Returned:
    """A value whose module is missing where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, ("left_at_the_worker",)


@with_client
async def test_the_error_for_a_result_that_cannot_be_read_names_its_task(client: AnyClient) -> None:
    unread = r": its result cannot be read here: ModuleNotFoundError: .*'left_at_the_worker'; install the module"
    calls: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("task Returned", lambda: client.submit(Returned)),
        (r"task Returned\(\) \(item 0 of the map\)", lambda: client.map(Returned, [()])),
        (r"task filled\(20000\) \(item 0 of the map\)", lambda: client.map(filled, [(20_000,)])),
    )
    for name, call in calls:
        with pytest.raises(DeserializeObjectError, match=name + unread):
            await call()


class Leaves:
    """A value that ends the program where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


@with_client
async def test_a_result_that_would_end_the_program_is_the_error_of_its_task(client: AnyClient) -> None:
    calls: tuple[Callable[[], Any], ...] = (
        lambda: client.submit(Leaves),
        lambda: client.map(Leaves, [()]),
        lambda: anext(client.map_unordered(Leaves, [()])),
        lambda: client.get({"a": (Leaves,)}, ["a"]),
    )
    for call in calls:
        with pytest.raises(DeserializeObjectError, match="its result cannot be read here: SystemExit: 3"):
            await call()
    heard: list[BaseException | None] = []
    is_heard = threading.Event()
    future = client.submit(Leaves)
    future.add_done_callback(lambda future: (heard.append(future.exception()), is_heard.set()))
    await ended(future)
    assert await asyncio.to_thread(is_heard.wait, 10)
    assert type(heard[0]) is DeserializeObjectError
    assert await client.submit(abs, -1) == 1


def filled(size: int) -> list[Any]:
    return [Returned(), bytes(size)]


def test_a_future_inside_another_value_is_refused_with_a_hint(client: Client) -> None:
    future = client.submit(abs, -1)
    for argument in (SimpleNamespace(a=future), [partial(abs, future)], {future: 1}):
        with pytest.raises(SerializeObjectError, match=r"the future of task abs cannot be .* pass its result\(\)"):
            client.submit(print, argument)


def test_a_future_in_a_graph_is_refused_with_a_hint(client: Client) -> None:
    future = client.submit(abs, -1)
    with pytest.raises(TypeError, match="a future can be an argument of submit or map, and not of a graph"):
        client.get({"a": (print, future)}, ["a"])
    with pytest.raises(
        SerializeObjectError, match=r"the node 'a': print: argument 1: .*the future of task abs cannot be"
    ):
        client.get({"a": (print, [future])}, ["a"])


@with_client
async def test_the_error_for_a_map_of_several_iterables_says_what_to_write(client: AnyClient) -> None:
    with pytest.raises(TypeError, match=r"map takes one iterable, .* client\.map\(fn, zip\(xs, ys\)\)"):
        await client.map(pow, [1, 2], [3, 4])  # type: ignore[call-overload]


@with_client
async def test_errors_for_items_of_a_map_and_texts_of_a_graph_say_what_to_write(client: AnyClient) -> None:
    with pytest.raises(TypeError, match=r"item 0 is 1: write \(\(x,\) for x in items\), or zip\(xs, ys\)"):
        await client.map(abs, [1, 2])  # type: ignore[list-item]
    with pytest.raises(
        TypeError, match=r"for two arguments, or map\(tuple, items\) if each item holds all arguments of its call$"
    ):
        await client.map(pow, [range(2), range(2, 4)])
    with pytest.raises(KeyError, match="needs 'hello', which is not in the graph: a str argument is a key"):
        await client.get({"a": (print, "hello")}, ["a"])


def test_a_future_has_only_public_attributes_for_users(client: Client) -> None:
    future = client.submit(abs, -1)
    shown = {name for name in dir(future) if not name.startswith("_")}
    of_the_standard_library = {
        *("add_done_callback", "cancel", "cancelled", "done", "exception", "result", "running"),
        *("set_exception", "set_result", "set_running_or_notify_cancel"),
    }
    ours = {"explain", "logs", "name", "profiling_info", "progress", "rerun", "story", "task_id"}
    assert shown == of_the_standard_library | ours


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_future_of_the_parent_cannot_be_cancelled_in_a_forked_process(
    client: Client, scheduler: FakeScheduler
) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    receiver, sender = multiprocessing.Pipe()

    def cancel() -> None:
        try:
            sender.send(future.cancel())
        except DisconnectedError as error:
            sender.send(str(error))

    process = multiprocessing.get_context("fork").Process(target=cancel)
    process.start()
    assert "belongs to the parent of this forked process" in receiver.recv()
    process.join(10)
    assert not future.cancelled()


def test_functions_of_the_main_script_travel_from_a_child_of_multiprocessing(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    import types

    main = types.ModuleType("__mp_main__")
    exec("def double(x): return 2 * x", main.__dict__)
    monkeypatch.setitem(sys.modules, "__mp_main__", main)
    try:
        with Client(scheduler.address) as client:
            monkeypatch.delitem(sys.modules, "__mp_main__")
            pickled = b"".join(client._core.functions.get(main.double).instruction.frames)
        assert what_pickle_depends_on(main.double) != ()
        monkeypatch.delitem(main.__dict__, "double")
        assert b"double" in pickled
        assert client is not None
    finally:
        cloudpickle.unregister_pickle_by_value(main)


def test_clients_have_only_public_attributes_for_users(scheduler: FakeScheduler) -> None:
    async def shown() -> tuple[set[str], set[str]]:
        async with AsyncClient(scheduler.address) as client:
            return set(dir(client)), set(dir(client.submit(abs, -1)))

    of_client, of_future = asyncio.run(shown())
    both = {
        *("as_executor", "cancel_tasks"),
        *("call", "clear", "dashboard_url", "disconnect", "get", "identity", "info", "job", "jobs", "logs", "map"),
        *("map_unordered", "objects", "options", "restart_workers", "run_on_all", "send_object", "shutdown"),
        *("starmap", "start", "story", "submit", "trace", "upload", "wait_for_workers", "workers"),
    }
    assert {name for name in of_client if not name.startswith("_")} == {*both, "connect"}
    of_asyncio = {name for name in dir(asyncio.Future) if not name.startswith("_")}
    ours = {"explain", "logs", "name", "profiling_info", "progress", "rerun", "story", "task_id"}
    assert {name for name in of_future if not name.startswith("_")} == of_asyncio | ours
    with Client(scheduler.address) as client:
        mine = {name for name in dir(client) if not name.startswith("_")}
    assert mine == both


def test_the_repr_of_a_client_says_whether_it_is_disconnected(scheduler: FakeScheduler) -> None:
    async def shown() -> list[str]:
        async with AsyncClient(scheduler.address) as client:
            before = repr(client)
        return [before, repr(client)]

    with Client(scheduler.address) as client:
        both = [repr(client)]
    for before, after in ([*both, repr(client)], asyncio.run(shown())):
        assert before.endswith(f" of {scheduler.address}>")
        assert after == f"{before[:-1]}, disconnected>"


def test_the_package_shows_only_names_for_users() -> None:
    assert dir(scaler) == sorted(scaler.__all__)
    assert not [name for name in vars(scaler) if name.startswith(("start_", "open_"))]


def test_the_error_for_a_wrong_constructor_argument_names_the_class() -> None:
    with pytest.raises(TypeError, match=r"^Client: too many positional arguments$"):
        Client(None, False, 60, 2, scaler.DefaultSerializer(), 4)  # type: ignore[misc]
    with pytest.raises(
        TypeError, match=r"^SchedulerClusterCombo: got an unexpected keyword argument 'adress'; did you mean"
    ):
        scaler.SchedulerClusterCombo(2, adress="")  # type: ignore[call-arg]


def test_pythons_own_errors_about_arguments_name_the_class_that_users_write(
    client: Client, scheduler: FakeScheduler
) -> None:
    wrong: Any = client
    of_asyncio: Any = AsyncClient(scheduler.address)
    for call, text in (
        (lambda: wrong.options(colour=3), r"^Client\.options\(\) got an unexpected keyword argument 'colour'"),
        (lambda: wrong.options(priority=1).map(abs), r"^Client\.map\(\) missing 1 required .* 'iterable'"),
        (lambda: wrong.info(3), r"^Client\.info\(\) takes 1 positional argument"),
        (lambda: wrong.options(None, 3), r"^Client\.options\(\) takes from 1 to 2 positional arguments"),
        (lambda: AsyncClient.map_unordered(wrong, abs), r"^AsyncClient\.map_unordered\(\) missing 1 required"),
        (
            lambda: of_asyncio.options(colour=3),
            r"^AsyncClient\.options\(\) got an unexpected keyword argument 'colour'",
        ),
        (lambda: of_asyncio.options(None, 3), r"^AsyncClient\.options\(\) takes from 1 to 2 positional arguments"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


@with_client
async def test_errors_about_options_and_modules_say_what_to_write(
    client: AnyClient, face: Face, scheduler: FakeScheduler
) -> None:
    with pytest.raises(TypeError, match="options takes keywords or a TaskOptions, not 1"):
        client.options(1)  # type: ignore[arg-type]
    with pytest.raises(scaler.ConfigError, match="modules to send must be modules or paths of modules, not 3"):
        await client.upload(3)  # type: ignore[arg-type]
    for modules in ("work.py", 3, scaler):
        with pytest.raises(scaler.ConfigError, match="modules must be a list of modules or their paths, not "):
            async with face(scheduler.address, modules=modules):
                """Never runs."""


@with_client
async def test_the_error_for_an_option_among_the_arguments_of_a_task_says_where_it_belongs(client: AnyClient) -> None:
    hint = (
        r"^abs: got an unexpected keyword argument 'retries'; as an option of the task: client.options\(retries=...\)"
    )
    with pytest.raises(TypeError, match=hint):
        client.submit(abs, -1, retries=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^abs: got an unexpected keyword argument 'key'$"):
        client.submit(abs, -1, key=3)  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"^takes_rows: missing a required argument: 'rows'; it takes no argument 'row'$"
    ):
        client.submit(takes_rows, 1, row=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^takes_rows: got an unexpected keyword argument 'row'$"):
        client.submit(takes_rows, 1, [], row=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^takes_rows: missing a required argument: 'rows'$"):
        client.submit(takes_rows, number=1)  # type: ignore[call-arg]


@pytest.mark.thorough
def test_the_error_for_an_unknown_host_name_names_it(caplog: pytest.LogCaptureFixture) -> None:
    address = f"tcp://{UNKNOWN}:6000"

    async def of_asyncio() -> None:
        async with AsyncClient(address, timeout_seconds=1) as client:
            await client.wait_for_workers(1, timeout=1)

    with Client(address, timeout_seconds=1) as client:
        calls: tuple[Callable[[], object], ...] = (
            lambda: client.submit(abs, -1).result(),
            lambda: client.map(abs, [(1,)]),
            client.info,
            lambda: client.wait_for_workers(1, timeout=1),
            lambda: asyncio.run(of_asyncio()),
        )
        for call in calls:
            with pytest.raises(
                TimeoutError, match=f"for 1 seconds; this machine cannot resolve the host name '{UNKNOWN}"
            ):
                call()
    assert caplog.text.count("or give an IP address. The client keeps trying") == 2
