"""What the scheduler keeps for a client, as the client sees it, with real processes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import AsyncClient, Client, ObjectInfo
from scaler.shared_memory import can_share
from tests.support.processes import wait_until


def large(n_bytes: int) -> bytes:
    return os.urandom(n_bytes)


def read_slowly(data: bytes, go: Path) -> int:
    while not go.exists():
        time.sleep(0.02)
    return len(data)


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(n_workers=1) as client:
        yield client


def of_kind(client: Client, kind: str) -> list[ObjectInfo]:
    return [each for each in client.objects() if each.kind == kind]


def test_a_value_is_listed_with_place_copies_and_readers_until_its_reference_is_deleted(
    client: Client, tmp_path: Path
) -> None:
    reference = client.send_object(os.urandom(3_000_000), name="market data")
    (stored,) = of_kind(client, "value")
    assert (stored.object_id, stored.name, stored.size) == (reference.object_id, "market data", reference.size)
    assert stored.place == ("client" if can_share() else "scheduler")
    assert (stored.copies, stored.readers) == (0, 0)
    future = client.submit(read_slowly, reference, tmp_path / "go")
    wait_until(lambda: of_kind(client, "value")[0].copies == 1, "a copy at the agent")
    assert of_kind(client, "value")[0].readers == 1
    assert client.objects()[0].kind == "value", "the largest first"
    assert [each.name for each in of_kind(client, "function")] == ["read_slowly"]
    (tmp_path / "go").touch()
    assert future.result() == 3_000_000
    wait_until(lambda: of_kind(client, "value")[0].readers == 0, "no reader")
    del reference, future
    wait_until(lambda: of_kind(client, "value") == [], "the end of the value")


def test_a_result_that_is_not_read_is_with_the_cluster_that_made_it_until_it_is_dropped(client: Client) -> None:
    future = client.submit(large, 1_000_000)
    wait_until(lambda: of_kind(client, "result"), "the result")
    (result,) = of_kind(client, "result")
    assert (result.object_id, result.name) == (future.task_id, "large")
    assert result.size >= 1_000_000
    assert result.place == ("cluster" if can_share() else "scheduler")
    assert len(future.result()) == 1_000_000
    del future
    wait_until(lambda: not of_kind(client, "result"), "the end of the result")


def test_an_asyncio_client_sees_only_its_own_objects(client: Client) -> None:
    kept = client.send_object(os.urandom(100_000), name="of another")

    async def look() -> list[str]:
        async with AsyncClient(client.info().address) as other:
            mine = await other.send_object(os.urandom(1000), name="mine")
            found = [each.name for each in await other.objects()]
            del mine
            return found

    assert asyncio.run(look()) == ["mine"]
    assert [each.name for each in client.objects()] == ["of another"]
    del kept
