"""References to stored objects inside of containers, and as they are, on a real cluster."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

import pytest

from scaler import AsyncClient, Client
from scaler.client import ObjectReference
from scaler.errors import MissingObjects, SerializeObjectError

SECONDS = 60
LARGE = bytes(range(256)) * 8192


def measured(value: Any) -> Any:
    """Return the same, with the length of what is `bytes`, and the class of what is a reference."""
    if isinstance(value, dict):
        return {key: measured(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(map(measured, value))
    return len(value) if isinstance(value, bytes) else type(value).__name__ if is_reference(value) else value


def measured_keywords(*args: Any, **kwargs: Any) -> Any:
    return measured(args), measured(kwargs)


def is_reference(value: Any) -> bool:
    return isinstance(value, ObjectReference)


def identity_of(values: list[Any]) -> tuple[int, int]:
    return os.getpid(), id(values[0])


def checked(table: bytes, number: int) -> tuple[bool, int]:
    return table == LARGE, number


def passes_on(table: Any, n: int) -> list[Any]:
    """Have tasks of this task read a table that this one has a reference of."""
    with Client() as client:
        futures = [client.submit(checked, table, number) for number in range(n)]
        rows = client.map(measured, [([table, {"key": table}],), (table,)])
        return [is_reference(table), *[future.result() for future in futures], *rows]


def passes_on_as_is(table: ObjectReference, depth: int) -> int:
    if depth == 0:
        with Client() as client:
            return client.submit(len, table).result()
    with Client() as client:
        return client.submit(passes_on_as_is, table.as_is(), depth - 1).result()


EXPECTED = [True, *[(True, number) for number in range(4)], [len(LARGE), {"key": len(LARGE)}], len(LARGE)]


def test_references_inside_of_containers(client: Client) -> None:
    table, small = client.send_object(LARGE), client.send_object("small")
    future = client.submit(measured_keywords, [table, [small]], (1, table), {small}, table, key={"a": (table, 2)})
    n = len(LARGE)
    assert future.result(SECONDS) == (([n, ["small"]], (1, n), {"small"}, n), {"key": {"a": (n, 2)}})
    assert future.name == "measured_keywords"
    rows = [([table, number],) for number in range(20)]
    assert client.map(measured, rows) == [[n, number] for number in range(20)]
    assert sorted(client.map_unordered(measured, rows)) == [[n, number] for number in range(20)]
    assert client.options(name="x").starmap(measured, rows[:1]) == [[n, 0]]
    with client.as_executor() as executor:
        assert executor.submit(measured, [table]).result(SECONDS) == [n]
        assert list(executor.map(measured, [[table], [1]])) == [[n], [1]]


def test_each_process_reads_the_object_one_time(client: Client) -> None:
    table = client.send_object([bytes(40_000)])
    read = set(client.map(identity_of, [([table],) for _ in range(20)]))
    assert len(read) == len({pid for pid, _ in read}), "a process has read it again"


def test_futures_and_references_together(client: Client) -> None:
    table, future = client.send_object(LARGE), client.submit(abs, -1)
    n = len(LARGE)
    for values in ([table, future], [future, table]):
        assert sorted(client.submit(measured, values).result(SECONDS)) == [1, n]
    call = client.submit(measured_keywords, future, [table, table.as_is()])
    assert call.result(SECONDS) == ((1, [n, "ObjectReference"]), {})


def test_a_task_passes_a_reference_to_its_tasks(client: Client) -> None:
    table = client.send_object(LARGE)
    assert client.submit(passes_on, table.as_is(), 4).result(SECONDS) == EXPECTED
    assert client.submit(passes_on_as_is, table.as_is(), 2).result(SECONDS) == len(LARGE)
    assert client.map(passes_on, [(table.as_is(), 4)] * 2) == [EXPECTED] * 2
    seen = client.submit(measured_keywords, [table.as_is(), (table,)], key={"a": table.as_is()})
    assert seen.result(SECONDS) == ((["ObjectReference", (len(LARGE),)],), {"key": {"a": "ObjectReference"}})


def test_nodes_of_graphs_take_references_as_they_are(client: Client) -> None:
    table = client.send_object(LARGE)
    graph = {"table": table.as_is(), "n": 4, "a": (passes_on, "table", "n"), "b": (is_reference, table.as_is())}
    assert client.get(graph, ["a", "b"]) == {"a": EXPECTED, "b": True}
    with pytest.raises(SerializeObjectError, match=r"Pass it to submit or map .* use its as_is\(\)"):
        client.get({"a": (measured, [table])}, ["a"])


def test_the_object_lives_as_long_as_a_task_that_has_its_reference(client: Client) -> None:
    future = client.submit(passes_on, client.send_object(LARGE).as_is(), 4)
    assert future.result(SECONDS) == EXPECTED


def keeps(reference: ObjectReference) -> None:
    globals()["kept"] = reference


def uses_kept() -> Any:
    with Client() as client:
        return client.submit(len, globals()["kept"]).result()


def test_a_deleted_object_is_a_missing_object(address: str) -> None:
    with Client(address) as client:
        table = client.send_object(LARGE)
        client.run_on_all(keeps, table.as_is())
        as_is = table.as_is()
        client.clear()
        for argument in (as_is, [as_is], [table]):
            with pytest.raises(MissingObjects, match="is no longer stored"):
                client.submit(measured, argument)
        with pytest.raises(MissingObjects, match="no longer stored"):
            client.submit(uses_kept).result(SECONDS)


def test_where_no_call_keeps_the_object_it_cannot_be(client: Client) -> None:
    table = client.send_object(LARGE)
    message = "can only be part of the arguments of a call"
    with pytest.raises(SerializeObjectError, match=message):
        client.submit(partial(len, table.as_is()))
    with pytest.raises(SerializeObjectError, match=message):
        client.send_object([table.as_is()])
    with pytest.raises(SerializeObjectError, match=message):
        client.submit(lambda reference: reference.as_is(), table.as_is()).result(SECONDS)
    with pytest.raises(TypeError, match="must be JSON values"):
        client.call("area", table)


def test_without_processes() -> None:
    with Client(processes=False) as client:
        table = client.send_object(LARGE)
        assert client.submit(measured, [table, {1: table.as_is()}]).result(SECONDS) == [
            len(LARGE), {1: "ObjectReference"},
        ]  # fmt: skip
        assert client.submit(passes_on, table.as_is(), 4).result(SECONDS) == EXPECTED


def test_with_asyncio(address: str) -> None:
    async def run() -> list[Any]:
        async with AsyncClient(address) as client:
            table = await client.send_object(LARGE)
            many: list[Any] = [*range(1 << 18), table]
            tasks = [
                client.submit(measured, [table, client.submit(abs, -1)]),
                client.submit(lambda values: len(values[-1]), many),
                client.submit(passes_on, table.as_is(), 4),
            ]
            return [*[await task for task in tasks], await client.map(measured, [([table],), (table.as_is(),)])]

    n = len(LARGE)
    assert asyncio.run(run()) == [[n, 1], n, EXPECTED, [[n], "ObjectReference"]]
