"""Tasks say how far they are, and their futures, bars and viewers tell it."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import scaler
from scaler import AsyncClient, Client, current_task
from tests.support.processes import wait_until

SECONDS = 60


def work(gate: str, *fractions: float) -> str:
    task = current_task()
    assert task is not None
    for fraction in fractions:
        task.report(fraction, "of the paths")
    while not Path(gate).exists():
        time.sleep(0.005)
    return "done"


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "gate"
    yield str(path)
    path.touch()


@pytest.fixture(params=[True, False], ids=["processes", "threads"])
def any_client(request: pytest.FixtureRequest, address: str) -> Iterator[Client]:
    with Client(address) if request.param else Client(processes=False, n_workers=1) as client:
        yield client


def test_a_future_has_the_latest_report_also_after_the_end(any_client: Client, gate: str) -> None:
    future = any_client.submit(work, gate, 0.1, 0.2, 0.4)
    wait_until(lambda: str(future.progress()) == "40% of the paths", "the latest report has come")
    Path(gate).touch()
    assert future.result(SECONDS) == "done"
    progress = future.progress()
    assert progress is not None
    assert (progress.fraction, progress.text) == (0.4, "of the paths")
    assert progress.worker in {worker.name for worker in any_client.workers()}
    assert len(future.logs()) == 0
    quiet = any_client.submit(abs, -1)
    assert quiet.result(SECONDS) == 1
    assert quiet.progress() is None


def test_a_graph_node_and_an_async_future_have_the_latest_report(address: str, client: Client, gate: str) -> None:
    nodes = client.get({"gate": gate, "node": (work, "gate", 0.25)}, ["node"], block=False)
    wait_until(lambda: str(nodes["node"].progress()) == "25% of the paths", "a report has come")
    Path(gate).touch()

    async def ask() -> None:
        async with AsyncClient(address) as other:
            future = other.submit(work, f"{gate}-2", 0.5)
            while (progress := await future.progress()) is None:  # noqa: ASYNC110 - it is the scheduler that hears it
                await asyncio.sleep(0.01)
            assert str(progress) == "50% of the paths"
            other.submit(Path.touch, Path(f"{gate}-2"))
            assert await future == "done"

    asyncio.run(ask())


def test_bars_show_the_report_of_the_oldest_open_task(
    client: Client, gate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    future = client.submit(work, gate, 0.75)
    watching = threading.Thread(target=scaler.progress, args=([future],))
    watching.start()
    wait_until(lambda: "work: 75%" in screen.getvalue(), "the bar of the futures shows it")
    Path(gate).touch()
    watching.join(SECONDS)
    mapping = threading.Thread(target=client.map, args=(work, [(f"{gate}-2", 0.5)]), kwargs={"progress": True})
    mapping.start()
    wait_until(lambda: "work: 50%" in screen.getvalue(), "the bar of the map shows it")
    Path(f"{gate}-2").touch()
    mapping.join(SECONDS)
