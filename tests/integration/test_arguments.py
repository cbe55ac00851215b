"""Arguments that are too large for the block of a call and travel with their task, through real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.pickling.serialization import CARRIED_BYTES, INLINE_BYTES
from scaler.wire.messages.monitor import StateScheduler
from tests.support.viewer import Viewer

pytestmark = pytest.mark.processes

SIZES = (INLINE_BYTES - 100, INLINE_BYTES, 30_000, 70_000, 300_000, CARRIED_BYTES - 1000, CARRIED_BYTES + 1)


@pytest.fixture(scope="module", params=[True, False], ids=["processes", "inline"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(n_workers=2, processes=request.param) as client:
        yield client


def of_size(size: int, number: int) -> bytes:
    return number.to_bytes(4, "little") * (size // 4)


def ends(*values: Any, **named: Any) -> list[tuple[int, bytes, bytes]]:
    return [(len(value), bytes(value[:4]), bytes(value[-4:])) for value in (*values, *named.values())]


def test_arguments_of_all_sizes_arrive_in_their_places(client: Client) -> None:
    values = [of_size(size, number) for number, size in enumerate(SIZES)]
    assert client.submit(ends, *values).result(60) == ends(*values)
    named = client.submit(ends, values[2], first=values[4], last=values[3])
    assert named.result(60) == ends(values[2], values[4], values[3])
    assert client.map(ends, [(value, b"1234") for value in values * 8]) == [
        ends(value, b"1234") for value in values * 8
    ]


def test_a_task_may_change_what_it_got(client: Client) -> None:
    def fill(value: bytearray, view: Any) -> tuple[int, int]:
        value[:] = b"\1" * len(value)
        memoryview(view)[:] = b"\2" * len(view)
        return sum(value), sum(view)

    own = bytearray(50_000)
    assert client.map(fill, [(own, bytearray(80_000)) for _ in range(20)]) == [(50_000, 160_000)] * 20
    assert not any(own)


def test_buffers_out_of_band_are_writable_and_each_tasks_own(client: Client) -> None:
    numpy = pytest.importorskip("numpy")

    def add_one(array: Any) -> float:
        array += 1
        return float(array.sum())

    arrays = [numpy.full(20_000, number, dtype=float) for number in range(12)]
    assert client.map(add_one, ((array,) for array in arrays)) == [20_000.0 * (n + 1) for n in range(12)]
    assert [client.submit(add_one, arrays[3]).result(60) for _ in range(2)] == [80_000.0] * 2
    assert float(arrays[3][0]) == 3.0


def test_nodes_of_a_graph_and_calls_with_futures_take_large_arguments(client: Client) -> None:
    large = of_size(100_000, 7)
    graph = {"a": (len, large), "b": (ends, large, of_size(40_000, 8)), "c": (max, "a", 3)}
    assert client.get(graph, ["b", "c"]) == {"b": ends(large, of_size(40_000, 8)), "c": 100_000}
    assert client.submit(ends, client.submit(bytes, 4), large).result(60) == ends(bytes(4), large)


def test_nested_tasks_and_clients_have_them(client: Client) -> None:
    def parent(value: bytes) -> list[int]:
        with Client() as inner:
            return inner.map(len, [(value[n:],) for n in range(4)])

    assert client.submit(parent, bytes(50_000)).result(60) == [50_000 - n for n in range(4)]


def dies_once(value: bytes, path: str) -> int:
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return len(value)


@pytest.mark.parametrize("size", [30_000, 400_000])
def test_a_task_that_runs_again_has_its_arguments_again(tmp_path: Path, size: int) -> None:
    with Client(n_workers=1) as client:
        futures = [client.submit(dies_once, bytes(size), str(tmp_path / "died")) for _ in range(5)]
        assert [future.result(60) for future in futures] == [size] * 5


def test_what_travels_is_counted_while_its_task_is_open() -> None:
    with (
        SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo,
        Viewer(combo.get_monitor_address(), "scheduler") as viewer,
        Client(combo.get_address()) as client,
    ):
        futures = [client.submit(naps, bytes(500_000)) for _ in range(8)]
        viewer.until(lambda seen: any(each.object_bytes >= 4_000_000 for each in seen.of(StateScheduler)), "its bytes")
        for future in futures:
            future.cancel()
        viewer.until(lambda seen: 0 < seen.of(StateScheduler)[-1].object_bytes < 100_000, "the function alone")


def naps(_value: bytes) -> None:
    time.sleep(60)
