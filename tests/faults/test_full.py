"""The memory for values is full, and so is the disk: workers wait with what they have, and readers go on."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from scaler import AsyncClient, Client
from scaler.errors import ObjectTooLargeError
from tests.faults.test_spill import files, shared_memory_of
from tests.support.processes import Command, command, scheduler, wait_until

pytestmark = pytest.mark.faults

VALUE_BYTES = 5_000_000
MEMORY_BYTES = 20_000_000
WORKERS = 2
OTHER = ("-n", str(WORKERS), "--object-memory-bytes", str(MEMORY_BYTES), "--spill-bytes", "0")


def value(number: int, size: int = VALUE_BYTES) -> bytes:
    return bytes([number]) * size


def ends(*data: bytes) -> list[tuple[int, int]]:
    return [(each[0], len(each)) for each in data]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Command]]:
    spill_bytes: int = getattr(request, "param", 0)
    disk: Sequence[str] = ("--spill-folder", str(tmp_path), "--spill-bytes", str(spill_bytes))
    options = ("-n", str(WORKERS), "--object-memory-bytes", str(MEMORY_BYTES), *disk)
    (runtime := tmp_path / "runtime").mkdir()  # it does not share its memory with other clusters of this user
    alone = {"XDG_RUNTIME_DIR": str(runtime)}
    with scheduler() as (address, _), command("cluster", address, *options, env=alone) as running:
        yield address, running


@pytest.mark.parametrize("cluster", [0, 20_500_000], indirect=True)
def test_workers_wait_until_results_are_read_and_all_of_them_are_right(
    cluster: tuple[str, Command], tmp_path: Path
) -> None:
    address, agent = cluster
    with Client(address) as client:
        futures = [client.submit(value, number) for number in range(30)]
        agent.wait_for("workers are paused until results are read or deleted")
        done = [future for future in futures if future.done()]
        assert len(done) < 16
        assert shared_memory_of(agent.pid) <= MEMORY_BYTES + 4 * WORKERS * VALUE_BYTES
        full = "memory and disk for values are full"
        wait_until(lambda: any(full in each.explain() for each in futures if not each.done()), "it is explained")
        assert ends(*(future.result(120) for future in futures)) == [(number, VALUE_BYTES) for number in range(30)]
        agent.wait_for("all workers resume")
        futures.clear()
        wait_until(lambda: not files(tmp_path), "nobody needs them")
        agent.signal(signal.SIGTERM)
        assert agent.end() == 0


def test_futures_that_are_dropped_make_room(cluster: tuple[str, Command]) -> None:
    address, agent = cluster
    with Client(address) as client:
        futures = [client.submit(value, number) for number in range(12)]
        agent.wait_for("workers are paused until results are read or deleted")
        begin = "paused, because memory and disk for values are full there"
        wait_until(lambda: any(begin in each.explain() for each in futures), "tasks that have no worker yet say so")
        futures[:] = [future for future in futures if not future.done()]
        wait(futures, 60)
        assert all(future.done() for future in futures[:2])


def test_a_graph_whose_values_do_not_fit_together_is_finished(cluster: tuple[str, Command]) -> None:
    address, _ = cluster
    with Client(address) as client:
        graph = {f"v{number}": (value, number) for number in range(8)}
        asked = client.get({**graph, "ends": (ends, *graph)}, ["ends"])
        assert asked["ends"] == [(number, VALUE_BYTES) for number in range(8)]


def test_a_result_for_which_there_is_never_room_fails_its_task_and_no_other(cluster: tuple[str, Command]) -> None:
    address, _ = cluster
    with Client(address) as client:
        future = client.submit(value, 1, MEMORY_BYTES + 1)
        other = client.submit(value, 2)
        with pytest.raises(
            ObjectTooLargeError, match=r"its result.*worker's host.*20,000,000.*object_memory_bytes"
        ) as caught:
            future.result(60)
        assert caught.value.size >= MEMORY_BYTES
        assert ends(other.result(60)) == [(2, VALUE_BYTES)]


def read(futures: list[Any], order: Iterable[int]) -> float:
    """Read results in an order, and drop their futures. Return how many seconds the longest one took."""
    took = []
    for number in order:
        begin = time.monotonic()
        assert ends(futures[number].result(60)) == [(number, VALUE_BYTES)]
        futures[number] = None
        took.append(time.monotonic() - begin)
    return max(took)


@pytest.mark.more
@pytest.mark.parametrize("cluster", [20_500_000], indirect=True)
def test_a_result_that_is_read_before_those_that_fill_the_memory_is_made_at_once(cluster: tuple[str, Command]) -> None:
    address, agent = cluster
    with Client(address) as client:
        futures = [client.submit(value, number) for number in range(30)]
        agent.wait_for("workers are paused until results are read or deleted")
        assert read(futures, reversed(range(30))) < 5.0


@pytest.mark.more
@pytest.mark.parametrize("cluster", [20_500_000], indirect=True)
def test_a_result_that_another_client_awaits_is_made_at_once(cluster: tuple[str, Command]) -> None:
    address, agent = cluster

    async def use() -> float:
        async with AsyncClient(address) as client:
            begin = time.monotonic()
            assert ends(await client.submit(value, 99)) == [(99, VALUE_BYTES)]
            return time.monotonic() - begin

    with Client(address) as client:
        futures = [client.submit(value, number) for number in range(30)]
        agent.wait_for("workers are paused until results are read or deleted")
        assert asyncio.run(use()) < 4.0
        assert read(futures, range(30)) < 5.0


@pytest.mark.more
@pytest.mark.parametrize("cluster", [20_500_000], indirect=True)
def test_the_results_of_a_full_host_that_is_lost_are_made_at_another_full_one(
    cluster: tuple[str, Command], tmp_path: Path
) -> None:
    address, agent = cluster
    with (
        command("cluster", address, *OTHER, env={"XDG_RUNTIME_DIR": str(tmp_path)}) as other,
        Client(address) as client,
    ):
        client.wait_for_workers(2 * WORKERS, timeout=60)
        futures = [client.submit(value, number) for number in range(30)]
        for each in (agent, other):
            each.wait_for("workers are paused until results are read or deleted")
        other.kill_all()
        assert read(futures, range(30)) < 15.0
