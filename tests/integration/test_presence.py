"""Who is there: a client learns it from a real scheduler, and waits for real workers."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from scaler import Client, Cluster, Scheduler, __version__
from tests.support.processes import wait_until

SECONDS = 60
Part = TypeVar("Part", Scheduler, Cluster)


@contextmanager
def running(part: Part) -> Iterator[Part]:
    part.start()
    try:
        yield part
    finally:
        part.terminate()
        part.join()


def ask_inside() -> tuple[int, int]:
    client = Client()
    return client.wait_for_workers(1, timeout=SECONDS).workers, sum(worker.tasks for worker in client.workers())


def test_a_client_waits_for_workers_and_lists_them() -> None:
    with running(Scheduler(logging_level="ERROR")) as scheduler, Client(scheduler.get_address()) as client:
        assert client.info().workers == 0
        future = client.submit(ask_inside)
        wait_until(lambda: client.info().waiting_tasks == 1, "the task waits at the scheduler")
        with pytest.raises(TimeoutError, match=f"0 of 1 workers .* scaler_cluster {scheduler.get_address()} -n 1"):
            client.wait_for_workers(1, timeout=1)
        seen: list[int] = []
        waiting = threading.Thread(target=lambda: seen.append(client.wait_for_workers(2, SECONDS).workers))
        waiting.start()
        with running(Cluster(scheduler.get_address(), n_workers=2, logging_level="ERROR")):
            waiting.join(SECONDS)
            assert seen == [2]
            assert future.result(SECONDS) == (2, 1)
            first, second = client.workers()
            assert (first.cluster, second.cluster) == (0, 0)
            assert first.name != second.name
            assert {(one.version, one.python_version) for one in (first, second)} == {
                (__version__, platform.python_version())
            }
            info = client.info()
            assert (info.workers, info.clusters) == (2, 1)
        wait_until(lambda: client.info().workers == 0, "the workers have left")
        assert client.workers() == []
