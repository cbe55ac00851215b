"""Futures as arguments of other tasks, on a real cluster."""

from __future__ import annotations

import asyncio
import functools
import operator
import re
import threading
import time
from concurrent.futures import CancelledError
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from scaler import AsyncClient, Client, ScalerFuture
from scaler.errors import ProcessorDiedError, SerializeObjectError
from tests.support.processes import command, free_address, scheduler, wait_until

SECONDS = 60
LARGE = 3_000_000


def waits_for(path: str, value: Any = 1) -> Any:
    """Return when the file exists."""
    while not Path(path).exists():
        time.sleep(0.005)
    return value


def begins_and_waits(begun: str, path: str) -> None:
    Path(begun).touch()
    waits_for(path)


def keywords(first: Any, *, second: Any, third: Any = None) -> tuple[Any, Any, Any]:
    return first, second, third


def large(fill: int, _after: Any = None) -> bytes:
    return bytes([fill]) * LARGE


def fails() -> None:
    raise ValueError("no such row")


def dies() -> None:
    import os

    os._exit(1)


@pytest.fixture
def gate(tmp_path: Path) -> str:
    return str(tmp_path / "gate")


def test_values_of_open_and_ended_tasks_arrive(client: Client, gate: str) -> None:
    opened = client.submit(waits_for, gate, 5)
    ended = client.submit(operator.neg, 7)
    assert ended.result(SECONDS) == -7
    future = client.submit(keywords, opened, second=ended, third="plain")
    again = client.submit(operator.add, opened, opened)
    Path(gate).touch()
    assert future.result(SECONDS) == (5, -7, "plain")
    assert again.result(SECONDS) == 10


def test_a_row_and_a_tree_of_tasks(client: Client) -> None:
    x = client.submit(operator.add, 0, 0)
    for _ in range(200):
        x = client.submit(operator.add, x, 1)
    assert x.result(SECONDS) == 200
    level: list[ScalerFuture[int]] = [client.submit(operator.add, i, 0) for i in range(64)]
    while len(level) > 1:
        level = [client.submit(operator.add, *pair) for pair in zip(level[::2], level[1::2], strict=True)]
    assert level[0].result(SECONDS) == sum(range(64))


def test_large_results_stay_with_the_cluster(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[bytes] = []
    link = client._core.link
    monkeypatch.setattr(link, "fetch", lambda object_id, *_: fetched.append(object_id))
    first = client.submit(large, 3)
    second = client.submit(large, 4, client.submit(len, first))
    assert client.submit(len, second).result(SECONDS) == LARGE
    assert fetched == []
    monkeypatch.undo()
    assert first.result(SECONDS) == large(3)
    assert client.submit(len, first).result(SECONDS) == LARGE  # it is kept for further calls
    del first
    assert client.submit(len, second).result(SECONDS) == LARGE


def test_futures_of_graph_nodes_are_arguments(client: Client, gate: str) -> None:
    graph = {"gate": gate, "a": (waits_for, "gate"), "b": (operator.add, "a", 1), "c": (operator.add, "b", "b")}
    futures = client.get(graph, ["b", "c"], block=False)
    future = client.submit(operator.sub, futures["c"], futures["b"])
    Path(gate).touch()
    assert future.result(SECONDS) == 2
    assert client.submit(operator.sub, futures["c"], futures["b"]).result(SECONDS) == 2


def test_a_failed_argument_fails_the_task_and_is_named(client: Client) -> None:
    failing = client.submit(fails)
    future = client.submit(operator.add, 1, failing)
    further = client.submit(operator.neg, future)
    for each in (future, further, client.submit(operator.neg, failing)):
        with pytest.raises(ValueError, match="no such row"):
            each.result(SECONDS)
    of_argument = f"task fails ({failing.task_id.hex()[-8:]}), whose result is argument 2 of task add:"
    assert str(future.exception().__cause__).strip().strip('"').strip().startswith(of_argument)
    assert "which task neg needs for argument 1, the result of task add" in str(further.exception().__cause__)
    dying = client.options(name="short-lived").submit(dies)
    with pytest.raises(ProcessorDiedError, match=r"task short-lived \(.*\), whose result is argument 1 of task neg"):
        client.submit(operator.neg, dying).result(SECONDS)


def test_futures_are_arguments_of_maps(client: Client, gate: str) -> None:
    opened, array = client.submit(waits_for, gate, 5), client.submit(large, 3)
    numbers = [client.submit(operator.neg, number) for number in range(300)]
    rows = client.map_unordered(operator.add, [(number, opened) for number in numbers])
    Path(gate).touch()
    assert sorted(rows) == sorted(5 - number for number in range(300))
    items: list[Any] = [(numbers[2], 1), (3, 1), ([numbers[1]], [array])]
    results = client.map(operator.add, items)
    assert (results[:2], [len(results[2]), results[2][0]]) == ([-1, 4], [2, -1])
    assert results[2][1] == large(3)
    failing = client.submit(fails)
    with pytest.raises(ValueError, match="no such row") as caught:
        client.map(operator.neg, [(numbers[1],), (failing,)])
    assert "whose result is argument 1 of task neg(" in str(caught.value.__cause__)
    assert "(item 1 of the map)" in str(caught.value.__cause__)


def test_cancelling_a_future_cancels_what_waits_for_it_and_not_the_other_way_round(
    client: Client, gate: str, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    first = client.submit(begins_and_waits, str(begun), gate)
    second = client.submit(operator.not_, first)
    third = client.submit(operator.not_, second)
    other = client.submit(operator.not_, first)
    wait_until(begun.exists, "the task begins")
    assert other.cancel()
    assert not first.done()
    assert first.cancel()
    first_name = r"task begins_and_waits \(.*\)"
    for future, name in (
        (first, "task begins_and_waits"),
        (second, f"{first_name}, whose result is argument 1 of task not_"),
        (third, f"{first_name}, which task not_ needs for argument 1, the result of task not_"),
        (other, "task not_"),
    ):
        with pytest.raises(CancelledError, match=f"^{name}: it was cancelled$"):
            future.result(SECONDS)
    assert client.submit(operator.neg, 1).result(SECONDS) == -1  # the slot is free


def test_a_call_that_waits_for_its_arguments_is_explained(client: Client, gate: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    first = client.submit(begins_and_waits, str(begun), gate)
    second = client.submit(operator.not_, first)
    wait_until(begun.exists, "the task begins")
    assert second.story().waits_for == "worker"
    assert re.search(r"it needs the result of task begins_and_waits \(\w{8}\), which runs at worker", second.explain())
    Path(gate).touch()
    assert second.result(SECONDS) is True


def test_futures_of_another_client_are_refused(client: Client, address: str) -> None:
    with Client(address) as other:
        future = other.submit(operator.neg, 1)
        with pytest.raises(TypeError, match="the future of task neg belongs to another client"):
            client.submit(operator.neg, future)
        assert other.submit(operator.neg, future).result(SECONDS) == 1


def test_many_threads_pass_futures_on_while_they_are_read(client: Client) -> None:
    results: dict[int, Any] = {}

    def use(number: int) -> None:
        first = client.submit(large, number)
        readers = [threading.Thread(target=first.result, args=(SECONDS,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        lengths = [client.submit(len, first) for _ in range(5)]
        results[number] = [each.result(SECONDS) for each in lengths]
        for reader in readers:
            reader.join(SECONDS)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert results == {number: [LARGE] * 5 for number in range(4)}


def nested(n: int) -> int:
    with Client() as client:
        futures = [client.submit(operator.add, i, 0) for i in range(n)]
        return functools.reduce(lambda a, b: client.submit(operator.add, a, b), futures).result()


def test_inside_a_task(client: Client) -> None:
    assert client.submit(nested, 10).result(SECONDS) == 45


@pytest.mark.more
def test_a_restarted_scheduler_gets_all_calls_again(gate: str) -> None:
    address = free_address()
    with ExitStack() as nodes:
        with scheduler(address) as (_, first_one):
            nodes.enter_context(command("cluster", address, "-n", "2"))
            client = nodes.enter_context(Client(address))
            kept = client.submit(large, 1)
            assert client.submit(len, kept).result(SECONDS) == LARGE
            first = client.submit(waits_for, gate)
            second = client.submit(operator.add, first, 1)
            both = client.submit(keywords, second, second=client.submit(len, kept))
            first_one.kill_all()
        with scheduler(address):
            Path(gate).touch()
            assert both.result(SECONDS) == (2, LARGE, None)
            assert client.submit(len, kept).result(SECONDS) == LARGE


def test_without_processes() -> None:
    with Client(processes=False) as client:
        assert client.submit(operator.add, client.submit(operator.neg, 1), 3).result(SECONDS) == 2


class TestAsyncio:
    @staticmethod
    async def values(client: AsyncClient, gate: str) -> None:
        opened = client.submit(waits_for, gate, 5)
        ended = client.submit(operator.neg, 7)
        assert await ended == -7
        future = client.submit(keywords, opened, second=ended)
        row = client.submit(operator.add, opened, 1)
        for _ in range(20):
            row = client.submit(operator.add, row, 1)
        Path(gate).touch()  # noqa: ASYNC240 - it takes no time
        assert await future == (5, -7, None)
        assert await row == 26
        first = client.submit(large, 1)
        lengths = [client.submit(len, first) for _ in range(3)]
        assert await asyncio.gather(*lengths) == [LARGE] * 3
        assert await first == large(1)
        assert await client.submit(len, first) == LARGE
        assert await client.map(operator.add, [(ended, i) for i in range(3)]) == [-7, -6, -5]

    @staticmethod
    async def failures(client: AsyncClient, gate: str) -> None:
        failing = client.submit(fails)
        with pytest.raises(ValueError, match="no such row") as caught:
            await client.submit(operator.neg, failing)
        assert "whose result is argument 1 of task neg" in str(caught.value.__cause__)
        first = client.submit(waits_for, gate)
        second = client.submit(operator.neg, first)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        async with AsyncClient(client._setup.address) as other:
            with pytest.raises(TypeError, match="belongs to another client"):
                other.submit(operator.neg, failing)

    @pytest.mark.parametrize("what", ["values", "failures"])
    def test(self, address: str, gate: str, what: str) -> None:
        async def main() -> None:
            async with AsyncClient(address) as client:
                await asyncio.wait_for(getattr(self, what)(client, gate), SECONDS)

        asyncio.run(main())


def test_futures_inside_of_containers(client: Client, gate: str) -> None:
    opened = client.submit(waits_for, gate, 5)
    numbers = [client.submit(operator.neg, number) for number in range(4)]
    array = client.send_object(list(range(3)))
    total = client.submit(sum, [*numbers, opened])
    future = client.submit(keywords, array, second={"a": (opened, 1), "b": {numbers[1]}}, third=[[large, opened]])
    late = client.submit(sum, [total, total])
    Path(gate).touch()
    assert total.result(SECONDS) == -1
    assert total.name == "sum"
    assert future.result(SECONDS) == ([0, 1, 2], {"a": (5, 1), "b": {-1}}, [[large, 5]])
    assert late.result(SECONDS) == -2
    parts = [client.submit(large, fill) for fill in range(3)]
    assert client.submit(lambda values: [len(each) for each in values], parts).result(SECONDS) == [LARGE] * 3


def test_the_number_of_futures_and_objects_of_a_call_is_bounded(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.client.calls.arguments.NEEDED_MOST", 2)
    futures, objects = [client.submit(abs, -n) for n in range(3)], [client.send_object(n) for n in range(3)]
    for arguments in (futures, objects):
        assert client.submit(max, *arguments[:2]).result() == 1
        with pytest.raises(ValueError, match="a call takes at most 2 futures and stored objects as arguments, and"):
            client.submit(max, *arguments)
    with pytest.raises(ValueError, match="this one has 3: combine some of them"):
        client.submit(max, futures)


def test_a_failed_argument_inside_of_a_container_is_named(client: Client) -> None:
    failing = client.submit(fails)
    future = client.submit(sum, [1, failing])
    with pytest.raises(ValueError, match="no such row"):
        future.result(SECONDS)
    assert "whose result is argument 1[1] of task sum:" in str(future.exception().__cause__)
    with pytest.raises(TypeError, match="sum: missing a required argument"):
        client.submit(sum, start=[failing])
    with pytest.raises(SerializeObjectError, match=r"sum: argument 1 .* the future of task fails cannot be a part"):
        client.submit(sum, functools.partial(print, failing))
