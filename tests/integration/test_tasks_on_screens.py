"""Single tasks on screens: a task is shown as running only while it runs, and as open only until it has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, Cluster, Scheduler
from scaler.ids import public_id
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui import views
from scaler.monitor.ui.feed import ALWAYS, FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.wire.messages.monitor import StateTask
from tests.support.processes import wait_until

pytestmark = pytest.mark.processes

BURST = 1500
"""More than the moves after which the scheduler stops to follow all tasks."""


def tick(number: int) -> int:
    return number


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class Page:
    """The page *Tasks*, without its browser: the stream of a real scheduler, and what the page is sent."""

    def __init__(self, address: str) -> None:
        self._subscriber = Subscriber(address, ALWAYS | {"tasks"})
        self._state = FeedState(address)

    def receive(self, seconds: float = 0.05) -> None:
        self._subscriber.wait(seconds)
        for news in self._subscriber.receive():
            self._state.take(news, time.monotonic())

    def look(self, wanted: Callable[[], Any], what: str) -> Any:
        """Receive until `wanted` returns something true, and return that."""

        def received() -> Any:
            self.receive()
            return wanted()

        return wait_until(received, what)

    def watch(self, short_id: str) -> None:
        self._subscriber.set_topics(ALWAYS | {"tasks", f"task/{short_id}"})

    @property
    def open_tasks(self) -> list[StateTask]:
        return [task for task in self._state.model.tasks.values() if not task.ended_us]

    @property
    def is_idle(self) -> bool:
        model = self._state.model
        return model.scheduler is not None and not model.open_tasks

    def data(self, page: str, **arguments: Any) -> Any:
        return views.frame(self._state, PageRequest(1, page, arguments), SentState(), time.monotonic())["data"]

    def rows(self, state: str) -> list[Any]:
        return list(self.data("tasks", state=state, limit=100)["rows"])

    def close(self) -> None:
        self._subscriber.close()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    scheduler = Scheduler(address=f"ipc://{tmp_path}/s", logging_level="CRITICAL")
    scheduler.start()
    yield scheduler.get_address()
    scheduler.terminate()
    scheduler.join()


@contextlib.contextmanager
def cluster(address: str, **settings: Any) -> Iterator[None]:
    workers = Cluster(address, n_workers=2, logging_level="CRITICAL", **settings)
    workers.start()
    try:
        yield
    finally:
        workers.terminate()
        workers.join()


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    with contextlib.closing(Page(address)) as shown:
        yield shown


def test_no_task_that_has_ended_is_shown_as_open_after_bursts(address: str, page: Page) -> None:
    with cluster(address), Client(address) as client:
        page.look(lambda: page.is_idle, "the first message")
        futures = [client.submit(nap, 0.2) for _ in range(20)]  # few, so all tasks are followed
        page.look(lambda: page.open_tasks, "open tasks")
        futures += [client.submit(tick, number) for number in range(BURST)]
        for future in futures:
            future.result()
        page.look(lambda: page.is_idle, "the end of all tasks")
        last = time.monotonic() + 4.0  # two more messages, at least
        while time.monotonic() < last:
            page.receive()
        assert page.open_tasks == []
        assert page.rows("running") == page.rows("queued") == page.rows("unseen") == []
        stream = page.data("stream")
        assert [bar for bar in stream["tasks"] if bar[2] == "running" or not bar[5]] == []


@pytest.mark.parametrize("engine", ["processes", "inline"])
def test_of_many_open_tasks_those_that_run_are_shown_as_running(engine: str, address: str, page: Page) -> None:
    with cluster(address, engine=engine), Client(address) as client:
        for future in [client.submit(tick, number) for number in range(BURST)]:
            future.result()
        submitted = time.time()
        futures = [client.submit(nap, 60.0) for _ in range(300)]
        page.look(lambda: len(page.rows("running")) == 2, "two running tasks")
        page.look(lambda: page._state.model.busy == 2, "busy workers")
        running = page.rows("running")[0]
        assert any(public_id(future.task_id).hex() == running["id"] for future in futures)
        page.watch(running["id"])
        task = page.look(lambda: _complete(page.data("task", id=running["id"])["task"]), "when it was submitted")
        assert submitted - 2.5 < task["submitted"] <= task["started"]
        assert abs(task["duration"] - (time.time() - task["started"])) < 3
        assert task["client"]
        for future in futures:
            future.cancel()
        page.look(lambda: page.is_idle and not page.open_tasks, "the end of all tasks")


def _complete(task: Any) -> Any:
    return task if task and task["submitted"] and task["duration"] else None


def test_a_run_of_an_agent_that_is_not_heard_of_is_not_shown_as_running(
    address: str, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.wire.messages.monitor.UNSEEN_SECONDS", 1.0)
    with Client(address) as client:
        workers = Cluster(address, n_workers=1, logging_level="CRITICAL")
        workers.start()
        try:
            future = client.submit(nap, 60.0)
            (row,) = page.look(lambda: page.rows("running"), "a running task")
            os.kill(workers.pid or 0, signal.SIGSTOP)
            (lost,) = page.look(lambda: page.rows("unseen"), "a task that no agent reports")
            assert lost["id"] == row["id"]
            assert abs(lost["seen"] - time.time()) < 30
            os.kill(workers.pid or 0, signal.SIGCONT)
            page.look(lambda: page.rows("running"), "the same task, running")
            future.cancel()
        finally:
            workers.terminate()
            workers.join()
